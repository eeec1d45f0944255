"""The zoo: four small networks with weights and 200 images, shipped with the package for offline use."""

from pwcf.zoo.images import CLASSES, DATA, load_images, stored_images
from pwcf.zoo.networks import RECIPES, Card, Recipe, architectures, card, load_network, make, names, weights_file

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
