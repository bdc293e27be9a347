"""Every number that decides something in the private solvers, and what it guards.

Lengths along a step are multiples of the step, λ² is the Newton decrement <r, H⁻¹r>, ε
the rounding of the precision. A number is not a tuning knob: half or double of it gives
the same codes on the tests' cases except where a comment says otherwise. The rapid
solver, which only ever hands points on, has a table of its own.

Half and double have not been tried for SATURATED, SHORTER, SHORTEST, MOVED, FULL_STEP,
CRAMPED, ROSE, LONG, NOT_CONVEX, CUT, QUIET, FLOOR, EXHAUSTED, INVISIBLE, PROGRESS,
PEAK_SHARE, MAX_STEADY, LOGARITHMIC, BLUR_NEAR, UNSETTLED, NULL, NULL_PROBES, OFF_HULL,
MOSTLY, RIDGE, STIFFER, ROUNDED, SETTLED_SHARE, EXACT, SAME_CURVATURE, STAIRCASE,
VANISHED, LEVEL, APART, LOST, SPARSE, SHARP, SPENT, ADRIFT, and the sections of the
scalar solver and of L-BFGS.
"""

# The bounded loops.
MAX_SEARCH = 40  # evaluations in one line search
MAX_CRAMPED = 30  # steps in a row cut below a tenth: the iteration is stuck
LOOKS = 2  # Hessians measured around the last point

# Steps.
SATURATED = 1e-4  # a step by which a variance falls by more is refused
SHORTER = 8  # how much shorter the next step tried is
SHORTEST = 2.0**-40  # a step this short is not shortened any more
MOVED = 0.25  # a shorter step shows nothing of how much variances change
FULL_STEP = 0.9  # a longer step should have lowered λ², or f is a logarithm
CRAMPED = 0.1  # a shorter step has been cut

# Line search, on the ratio of the slope to the slope at 0.
ROSE = 32  # ε: a value that rises by less has not risen
LONG_STEP = 2.0**20  # a step this long is a drift to infinity
SHORT = -0.25  # ratio under which a step is lengthened
LONG = 0.5  # ratio above which a step is shortened
NOT_CONVEX = -1.01  # ratio under which f was left silently: the slope must rise
CUT = 16  # how much shorter a step is where even the cautious length is too long

# Walls.
WALL_SHARE = 0.75  # of the way to a point where f is not finite, while f still falls
STEEP = 4  # growth of a variance over WALL_SHARE: at more the edge is no wall
WALL_STEPS = 8  # steps after which held coordinates are let go
WALL_ROUNDS = 2  # times that held coordinates are let go before they are pushed
BISECTIONS_TO_WALL = 64  # halvings of the way to the wall in the last round

# Convergence and drift.
QUIET = 64  # roundings of the slope along the ray: λ² below it is noise
FLOOR = 32  # ε·(|f| + Σ|y_i θ_i|): λ² below it may be the floor
EXHAUSTED = 1  # ε³·(|f| + Σ|y_i θ_i|): a drift that gains less is over
INVISIBLE = 1  # ε²·(|f| + Σ|y_i θ_i|): λ² below it needs no better coordinates
PROGRESS = 0.7  # of the least or last λ²: above it is no progress
PEAK_SHARE = 1  # ε^¾ of the largest λ²: a smaller λ² is not a logarithm's
MAX_STEADY = 8  # largest count of steps with the same λ²
LOGARITHMIC = 2  # more full steps with the same λ² than without: f* may be infinite
IDLE_STEPS = 3  # steps without progress at the floor of rounding
SETTLED = 0.25  # relative change of a variance: more, and the iterates still travel
LONG_DRIFT = 6  # steps with the same λ², after which a direction may be lost
WORN = 0.5  # √ε: a variance of the scaled Hessian below it has lost half its digits

# Rounding of the Hessian.
UNRESOLVED = 64  # ε·mean²: a variance below it is noise
FIRM = 32  # ε: a smaller pivot is the ridge's, not the Hessian's
BLUR = 1 / 16**2  # λ² that a rounding of y and ∇f makes: near the boundary, to rounding
UNSETTLED = 1  # √ε·(1 + |y| + |∇f|): where steps end early, no residual is larger
BLUR_NEAR = BLUR / 16  # BLUR at a point that has a maximiser next to it
FAR = 10  # λ² above which a blurred point is outside rather than on the boundary

# Overcomplete directions.
NULL = 8  # n·ε: a smaller eigenvalue of the scaled Hessian may belong to one
NULL_PROBES = (1.0, -1.0, 10.0, -10.0)  # lengths at which its slope must be the same
OFF_HULL = 100  # roundings: y off the affine hull, or a slope that changes
MOSTLY = 0.5  # share of a coordinate above which f is affine in it

# Cholesky's factor.
RIDGE = 4  # ε: the first ridge tried
STIFFER = 30  # by how much each next ridge is larger

# Acceptance.
ROUNDED = 100  # times λ² of a rounding: a larger decrement is no rounding
SETTLED_SHARE = 1e-3  # of the error allowed: steps have not brought a larger λ² down
EXACT = 1.5  # of the error allowed, rounding of f included
AGREEMENT = 0.25  # largest relative difference between Hessians around the point
NEAR = 1 / 16  # λ² under which a steady Hessian means that there is a solution
SAMPLES = 16  # evaluations of f around the point, for its rounding
CERTAINTY = 6  # standard errors of their mean
UNIT = 8  # ε: a rounding of f that is small beside 1, as where f is log(1 − 1e-9)
# ε·|f′|: errors of f′ tried by the scalar solver.
ROUNDINGS = (1, 8, 64, 512, 4096, 32768)
SAME_CURVATURE = (0.25, 4)  # times that at the point: a quadratic model holds
STAIRCASE = 0.5  # of the rise of f′ in the model: farther off, f′ is rounding

# The scalar solver.
FELL = 64  # roundings of f′: a fall by more means that the domain was left silently
SCALAR_FLOOR = 64  # roundings of f′: a smaller residual may be at the floor
HALVED = 0.5  # of the last residual or λ²: above it is no progress
FLATTER = 0.5  # of the last curvature: below it the iterates drift, and steps grow
UNEQUAL = 16  # ratio of a bracket's ends above which its middle is geometric
BESIDE = 3  # residuals and roundings from θ to where f′ must have crossed y
STILL = 4  # roundings: a residual that says nothing of the way, or the least move of θ

# L-BFGS.
HISTORY = 20  # pairs of steps and gradients kept
LOWER = 0.9  # of the least gradient: below it is progress
LBFGS_IDLE = 10  # steps without progress, after which Newton steps take over
POLISHING = 20  # Newton steps at most
CG_STEPS = 500  # steps of conjugate gradients for one of them
CG_TOLERANCE = 1e-2  # at which each ends
PROBES = 16  # products with H to estimate its diagonal
LEFT = 1e-3  # of the squared residual, which conjugate gradients may leave
LEFT_ROUNDINGS = 1e4  # of the squared roundings, which they may leave
EXACT_ROUNDINGS = 4  # of y: a smaller residual is nothing

# Rays.
POINTS = 37  # on a ray along which f is finite
BISECTIONS = 52  # of the way to the first point where f is not finite
TRAVELLED = 13  # points no farther out than the last iterate
VISIBLE = 64  # roundings: a gap above it is more than rounding
VANISHED = 16  # roundings: two gaps in a row below it are nothing
LEVEL = 0.5  # of the gap before: a larger gap has not fallen
APART = 4  # ε: ends of a bisection that are nearer are one point
LOST = 1 / 8  # 1/ε: an end of the domain farther out may come from a rounding
SPARSE = 1e-3  # of the largest component of a step: a smaller one may be rounding alone
QUARTER = (0.2, 0.3)  # of the gap left four times as far out, where it falls like 1 / s
QUARTERS = 3  # such falls in a row: f* is infinite on the boundary
SHARP = 1024  # roundings: a gap above it that falls by more has a finite limit
SPENT = 1  # √ε: f changes by less on a coordinate's whole way back, which went far
ADRIFT = 1 / 16  # of the largest relative move: a coordinate that moves less is still
BEYOND = 256  # times the way travelled: an end farther out is no edge of the domain
FAR_EDGE = 64  # a domain that ends farther out must bend before, or ψ overflows there
BENT = 1 / 16  # share of the gap that counts as bending
