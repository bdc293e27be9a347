"""Every number that decides something in the private solvers, and what it guards.

Lengths along a step are multiples of it, λ² is the Newton decrement <r, H⁻¹r>, ε the
rounding of the precision. A number is not a tuning knob: half or double of it gives the
same codes on the tests' cases except where a comment says otherwise.
"""

# The bounded loops.
MAX_SEARCH = 40  # evaluations in one line search
MAX_CRAMPED = 30  # steps in a row cut below a tenth: the iteration is stuck
LOOKS = 2  # Hessians measured around the last point

# Line search, on the ratio of the slope to the slope at 0.
LONG_STEP = 2.0**20  # a step this long is a drift to infinity
SHORT = -0.25  # ratio under which a step is lengthened

# Walls.
WALL_SHARE = 0.75  # of the way to a point where f is not finite, while f still falls
STEEP = 4  # growth of a variance over that, of a domain whose edge is no wall
WALL_STEPS = 8  # after which held coordinates are let go
WALL_ROUNDS = 2  # times that held coordinates are let go before they are pushed
BISECTIONS_TO_WALL = 64

# Convergence and drift.
IDLE_STEPS = 3  # steps without progress at the floor of rounding
SETTLED = 0.25  # relative change of a variance: more, and the iterates still travel
LONG_DRIFT = 6  # steps with the same λ², after which a direction may be lost
WORN = 0.5  # √ε: a variance of the scaled Hessian below it has lost half its digits

# Rounding of the Hessian.
UNRESOLVED = 64  # ε·mean²: a variance below it is noise
FIRM = 32  # ε: a smaller pivot is the ridge's, not the Hessian's
BLUR = 1 / 16**2  # λ² that a rounding of y and ∇f makes: near the boundary, to rounding
FAR = 10  # λ² above which a blurred point is outside rather than on the boundary

# The certificate.
AGREEMENT = 0.25  # largest relative difference between Hessians around the point
NEAR = 1 / 16  # λ² under which a steady Hessian means that there is a solution
SAMPLES = 16  # evaluations of f around the point, for its rounding
CERTAINTY = 6  # standard errors of their mean
UNIT = 8  # ε: a rounding of f that is small beside 1, as where f is log(1 − 1e-9)
ROUNDINGS = (
    1,
    8,
    64,
    512,
    4096,
    32768,
)  # ε·|f′|: errors of f′ tried by the scalar solver

# Rays.
POINTS = 37  # on a ray that f is finite on
BISECTIONS = 52  # of the way to the first point where f is not
TRAVELLED = 13  # points no farther out than the last iterate
VISIBLE = 64  # roundings: a gap above it is more than rounding
QUARTER = (0.2, 0.3)  # of the gap left four times as far out, where it falls like 1 / s
QUARTERS = 3  # in a row
BEYOND = 256  # times the way gone: an end of the ray is no edge of the domain
FAR_EDGE = 64  # a domain that ends farther out must bend before, or ψ overflows there
BENT = 1 / 16  # share of the gap that counts as bending
