"""Sites of a configuration that chance makes: statements, their text, and versions with fewer of them."""

import random
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Statement:
    """A directive, or a section if it has `inner` ones."""

    text: str
    inner: tuple = None


@dataclass(frozen=True)
class Site:
    """The statements of a site, and those of files in its folders, by their path."""

    statements: tuple
    files: dict = field(default_factory=dict)

    def smaller(self):
        """All sites that lack one of the statements, those that lack most first."""
        made = [replace(self, statements=rest) for rest in without_one(self.statements)]
        for path, statements in self.files.items():
            made += [replace(self, files={**self.files, path: rest}) for rest in without_one(statements)]
        return sorted(made, key=Site.size)

    def size(self):
        return count(self.statements) + sum(map(count, self.files.values()))


def count(statements):
    return sum(1 + count(one.inner or ()) for one in statements)


def without_one(statements):
    for at, one in enumerate(statements):
        before, after = statements[:at], statements[at + 1:]
        yield (*before, *after)
        for inner in without_one(one.inner or ()):
            yield (*before, replace(one, inner=inner), *after)


class Chance(random.Random):
    """The same choices for the same seed."""

    def some(self, makers, least, most):
        """Returns the statements that `least` to `most` of these functions make."""
        chosen = self.sample(makers, min(len(makers), self.randint(least, most)))
        return [one for maker in chosen for one in maker()]

    def happens(self, probability):
        return self.random() < probability
