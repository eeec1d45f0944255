"""The embedded zoo: small networks with their weights and 200 images, so that everything can be tried offline."""

from pwcf.zoo.architectures import architectures, make
from pwcf.zoo.cards import Card, card, names
from pwcf.zoo.contents import CLASSES, DATA, load_images, load_network, stored_images, weights_file
from pwcf.zoo.recipes import RECIPES, Recipe

__all__ = [
    "CLASSES",
    "DATA",
    "RECIPES",
    "Card",
    "Recipe",
    "architectures",
    "card",
    "load_images",
    "load_network",
    "make",
    "names",
    "stored_images",
    "weights_file",
]
