"""Every number that decides something in the private solvers, and what it guards.

Lengths along a step are multiples of it, λ² is the Newton decrement <r, H⁻¹r>, ε the
rounding of the precision. A number is not a tuning knob: half or double of it gives the
same codes on the tests' cases except where a comment says otherwise.

Half and double have not been tried for SATURATED, SHORTER, SHORTEST, MOVED, FULL_STEP,
CRAMPED, ROSE, LONG, NOT_CONVEX, CUT, QUIET, FLOOR, EXHAUSTED, INVISIBLE, PROGRESS,
PEAK_SHARE, MAX_STEADY, LOGARITHMIC, BLUR_NEAR, NULL, NULL_PROBES, OFF_HULL, MOSTLY,
RIDGE, STIFFER, ROUNDED, SETTLED_SHARE, EXACT, SAME_CURVATURE, STAIRCASE, VANISHED,
LEVEL, APART, LOST, SPARSE, SHARP, SPENT, ADRIFT.
"""

# The bounded loops.
MAX_SEARCH = 40  # evaluations in one line search
MAX_CRAMPED = 30  # steps in a row cut below a tenth: the iteration is stuck
LOOKS = 2  # Hessians measured around the last point

# Steps.
SATURATED = 1e-4  # a variance that falls by more refuses the step
SHORTER = 8  # how much shorter the next is
SHORTEST = 2.0**-40  # not shortened any more
MOVED = 0.25  # a shorter step tells nothing of how much variances change
FULL_STEP = 0.9  # a longer one should have lowered λ², or f is a logarithm
CRAMPED = 0.1  # a shorter one has been cut

# Line search, on the ratio of the slope to the slope at 0.
ROSE = 32  # ε: a value that rises by less has not risen
LONG_STEP = 2.0**20  # a step this long is a drift to infinity
SHORT = -0.25  # ratio under which a step is lengthened
LONG = 0.5  # ratio above which a step is shortened
NOT_CONVEX = -1.01  # ratio under which f was left silently: the slope must rise
CUT = 16  # how much shorter a step is where even the cautious length is too long

# Walls.
WALL_SHARE = 0.75  # of the way to a point where f is not finite, while f still falls
STEEP = 4  # growth of a variance over that, of a domain whose edge is no wall
WALL_STEPS = 8  # after which held coordinates are let go
WALL_ROUNDS = 2  # times that held coordinates are let go before they are pushed
BISECTIONS_TO_WALL = 64

# Convergence and drift.
QUIET = 64  # roundings of the slope along the ray: λ² below it is noise
FLOOR = 32  # ε·(|f| + Σ|y_i θ_i|): λ² below it may be the floor
EXHAUSTED = 1  # ε³ of the same: a drift that gains less is over
INVISIBLE = 1  # ε² of the same: λ² below it needs no better coordinates
PROGRESS = 0.7  # of the least or last λ²: above it is no progress
PEAK_SHARE = 1  # ε^¾ of the largest λ²: a smaller one is not a logarithm's
MAX_STEADY = 8  # counted no farther
LOGARITHMIC = 2  # full steps more with the same λ² than without: f* may be infinite
IDLE_STEPS = 3  # steps without progress at the floor of rounding
SETTLED = 0.25  # relative change of a variance: more, and the iterates still travel
LONG_DRIFT = 6  # steps with the same λ², after which a direction may be lost
WORN = 0.5  # √ε: a variance of the scaled Hessian below it has lost half its digits

# Rounding of the Hessian.
UNRESOLVED = 64  # ε·mean²: a variance below it is noise
FIRM = 32  # ε: a smaller pivot is the ridge's, not the Hessian's
BLUR = 1 / 16**2  # λ² that a rounding of y and ∇f makes: near the boundary, to rounding
BLUR_NEAR = BLUR / 16  # the same, at a point that has a maximiser next to it
FAR = 10  # λ² above which a blurred point is outside rather than on the boundary

# Overcomplete directions.
NULL = 8  # n·ε: a smaller eigenvalue of the scaled Hessian may be one's
NULL_PROBES = (1.0, -1.0, 10.0, -10.0)  # how far the slope along it must stay the same
OFF_HULL = 100  # roundings: y off the affine hull, or a slope that changes
MOSTLY = 0.5  # share of a coordinate that lies in such a direction

# Cholesky's factor.
RIDGE = 4  # ε: the first ridge tried
STIFFER = 30  # by how much each next one is larger

# The certificate.
ROUNDED = 100  # times λ² of a rounding: above it a decrement is no rounding
SETTLED_SHARE = 1e-3  # of the error allowed: and above it steps did not bring it down
EXACT = 1.5  # of the error allowed, rounding of f included
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
SAME_CURVATURE = (0.25, 4)  # times that at the point: a quadratic model holds
STAIRCASE = 0.5  # of the rise of f′ that the model expects: farther off, f′ is rounding

# Rays.
POINTS = 37  # on a ray that f is finite on
BISECTIONS = 52  # of the way to the first point where f is not
TRAVELLED = 13  # points no farther out than the last iterate
VISIBLE = 64  # roundings: a gap above it is more than rounding
VANISHED = 16  # roundings: two gaps in a row below it are nothing
LEVEL = 0.5  # of the gap before: more is no fall
APART = 4  # ε: ends of a bisection that are nearer are one point
LOST = 1 / 8  # 1/ε: an end of the domain farther out may be a rounding's
SPARSE = 1e-3  # of the largest component of a step: less may be rounding alone
QUARTER = (0.2, 0.3)  # of the gap left four times as far out, where it falls like 1 / s
QUARTERS = 3  # in a row
SHARP = 1024  # roundings: a gap above it that falls by more has a finite limit
SPENT = 1  # √ε: f gains less by a coordinate's whole way back, where it has gone far
ADRIFT = 1 / 16  # of the largest relative move: less is not drifting
BEYOND = 256  # times the way gone: an end of the ray is no edge of the domain
FAR_EDGE = 64  # a domain that ends farther out must bend before, or ψ overflows there
BENT = 1 / 16  # share of the gap that counts as bending
