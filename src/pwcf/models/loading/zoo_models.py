"""Networks that come with the package, with their own weights or a file of one's own."""

from __future__ import annotations

import hashlib

from pwcf import zoo
from pwcf.models.loading.built import Built, Wanted
from pwcf.models.loading.errors import ModelError, meant
from pwcf.models.loading.library import named_with_version
from pwcf.models.loading.weights import named_with_checksum, put_weights, read_weights


def build(wanted: Wanted) -> Built:
    name, own = wanted.rest, wanted.rest in zoo.names()
    if not own and name not in zoo.architectures():
        known = [*zoo.names(), *zoo.architectures()]
        raise ModelError(
            f"model {wanted.spec}: expected a network of the zoo, {', '.join(zoo.names())}, or with --weights its "
            f"architecture {', '.join(zoo.architectures())}, found none of that name{meant(name, known)}"
        )
    if wanted.weights is not None:
        network = zoo.make(zoo.RECIPES[name].architecture if own else name).eval()
        put_weights(network, read_weights(wanted.weights), wanted.weights)
        source = named_with_checksum(wanted.weights)
    elif own:
        network = zoo.load_network(name)
        source = f"weights {name} {hashlib.sha256(zoo.weights_file(name)).hexdigest()[:12]}"
    else:
        raise ModelError(
            f"model {wanted.spec}: expected --weights, as an architecture has none of its own, found none; give the "
            f"file that pwcf train wrote, or name one of {', '.join(zoo.names())}"
        )
    return Built(network, wanted.spec, (wanted.spec, named_with_version("pwcf"), source))
