"""Smoothing, which keeps degenerate clusters inside the domain."""

from bregjax.smoothing._maps import Constraint as Constraint
from bregjax.smoothing._maps import StatisticMap as StatisticMap
from bregjax.smoothing._rules import adding as adding
from bregjax.smoothing._rules import bernstein as bernstein
from bregjax.smoothing._rules import bernstein_amount as bernstein_amount
from bregjax.smoothing._rules import blur as blur
from bregjax.smoothing._rules import mixing as mixing
from bregjax.smoothing._rules import normal_reference as normal_reference
from bregjax.smoothing._rules import pseudo_count as pseudo_count
from bregjax.smoothing._unconstrained import from_unconstrained as from_unconstrained
from bregjax.smoothing._unconstrained import to_unconstrained as to_unconstrained
