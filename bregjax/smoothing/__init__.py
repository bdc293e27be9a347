"""Smoothing: how degenerate clusters are kept inside the domain."""

from bregjax.smoothing.maps import Adding as Adding
from bregjax.smoothing.maps import Blur as Blur
from bregjax.smoothing.maps import Constraint as Constraint
from bregjax.smoothing.maps import Mixing as Mixing
from bregjax.smoothing.maps import PseudoCount as PseudoCount
from bregjax.smoothing.maps import StatisticMap as StatisticMap
from bregjax.smoothing.rules import adding as adding
from bregjax.smoothing.rules import bernstein as bernstein
from bregjax.smoothing.rules import bernstein_amount as bernstein_amount
from bregjax.smoothing.rules import blur as blur
from bregjax.smoothing.rules import mixing as mixing
from bregjax.smoothing.rules import normal_reference as normal_reference
from bregjax.smoothing.rules import pseudo_count as pseudo_count
from bregjax.smoothing.unconstrained import from_unconstrained as from_unconstrained
from bregjax.smoothing.unconstrained import to_unconstrained as to_unconstrained
