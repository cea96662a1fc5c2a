"""A module in a package."""
from made import Nested

thing = Nested.app
