"""What the default run takes of the expensive sweeps; `.ci/run` takes all of them.

Most of a test's time goes into compiling: for each family, each shape, each precision.
Of the sweeps named here the default run takes the cases whose names match, one or two
of each kind. Of those with no pattern it takes none: tests that stay claim the same of
fewer cases.
"""

from fnmatch import fnmatchcase

from cases import CONVEX

# By default single precision is for the files that are about digits.
DIGITS = (
    "test_conjugate.py",
    "test_conjugate_edges.py",
    "test_many_conjugates.py",
    "test_numerics.py",
    "test_plain_kinks.py",
    "test_precision.py",
    "test_proportions.py",
    "test_remainder.py",
)

# Convex functions: one of each kind.
FUNCTIONS = (
    "*negative_entropy*",
    "*log_sum_exp*",
    "*mahalanobis*",
    "*logistic*",
    "*sphere_entropy*",
    "*l1_norm*",
    "*max_norm*",
    "*simplex*",
    "*log_det",
)

# Families: one of each kind of cluster model.
FAMILIES = (
    "bernoulli",
    "categories",
    "gamma",
    "gaussian",
    "multinomial",
    "poisson",
    "von_mises_fisher",
)

DEFAULT = {
    "test_assignment_costs.py": {
        "test_assignment_costs_are_those_of_the_definitions": (
            "bernoulli-*",
            "diagonal_gaussian-*",
            "gaussian-*",
        ),
    },
    "test_cluster_gradients.py": {
        "test_gradients_match_finite_differences": FAMILIES,
        "test_second_derivatives_match_differences_of_gradients": (),
    },
    "test_certificate.py": {
        "test_ties_may_be_broken_in_any_way": ("ward-x1-*", "poisson-*", "gaussian-*"),
        "test_a_tree_in_single_precision_holds": ("poisson",),
    },
    "test_check.py": {
        "test_what_ails_a_family_is_found": (
            "absolute-*",
            "concave-*",
            "false_claim-*",
            "outside-*",
            "unstable-*",
        ),
    },
    "test_cluster_edges.py": {
        "test_boundary_faces_of_any_psi_leave_the_others_their_digits": (),
        "test_boundary_coordinates_leave_the_others_their_digits_in_float32": (),
    },
    "test_columnwise.py": {
        "test_the_model_inside_jit_is_that_outside": (),
        "test_normal_columns_are_the_built_in": (),
        "test_weights_and_smoothing": (),
    },
    "test_cluster_models.py": {
        "test_coding_does_not_change_the_cost": (),
        "test_cross_cost_is_the_merge_cost_to_rounding": FAMILIES,
        "test_states_hold_means_and_weights": FAMILIES,
        "test_merge_cost_is_symmetric_and_zero_between_equals": FAMILIES,
        "test_float32_costs_agree_with_float64": FAMILIES,
        "test_closed_conjugates_are_what_psi_alone_gives": ("poisson",),
        "test_closed_cluster_models_are_what_psi_alone_gives": ("poisson", "gaussian"),
    },
    "test_conjugate.py": {
        "test_accuracy": ("*Poisson 1e-08*", "*Poisson 1.000001*"),
        "test_batches_with_bad_members": ("float64-*",),
        "test_hostile_points": (),
        "test_boundary_and_outside": ("float64-*two zeros*",),
        "test_second_call_does_not_retrace": ("options0",),
        "test_many_dimensions": (),
    },
    "test_conjugate_derivatives.py": {
        "test_second_derivatives_overcomplete": (),
        "test_derivatives_of_the_maximiser": (),
        "test_closure_over_tracers": (),
    },
    "test_conjugate_edges.py": {
        "test_edges": (
            "float64-negative binomials",
            "float64-box, separable",
            "float64-truncated exponential",
        ),
        "test_single_precision_says_what_it_cannot_tell": (),
        "test_one_guarded_coordinate": ("inf-_expm1", "nan-_log"),
        "test_several_categories_of_which_some_have_died_out": (),
    },
    "test_constraints.py": {
        "test_other_costs": ("own-True", "observed-False", "sparse-True"),
        "test_it_is_greedy": ("ward-*", "gaussian-*", "poisson-True"),
        "test_stopping_early_is_the_beginning_of_the_tree": ("numpy", "windowed"),
    },
    "test_convex.py": {
        "*": FUNCTIONS,
        "test_numerical_conjugate_of_a_coupled_function": (),
        "test_numerical_conjugate_far_apart_and_close": (),
    },
    "test_debug_nans.py": {
        "test_strict_promotion_changes_nothing": ("gaussian", "own"),
        "test_trees_features_and_certificates": (),
        "test_derivatives": ("poisson-*",),
    },
    "test_directional.py": {
        "test_undecided_raises_eagerly_and_is_nan_when_traced": (
            "argsort",
            "integer cast",
            "while",
        ),
    },
    "test_directions.py": {
        "test_equal_and_opposite_rows": (),
        "test_trees_do_not_depend_on_the_axes": (),
        "test_gradients_at_the_center_and_between_equal_means": (),
        "test_divergence_along_and_across_to_forty_digits": ("*-1e-05-*", "*-0.99-3"),
    },
    "test_divergences.py": {
        "*": FUNCTIONS,
        "test_pairs": ("negative_entropy",),
        "test_plain_functions_far_near_and_outside": (),
    },
    "test_docs.py": {
        "test_python_blocks_print_what_they_show": ("windowed.md",),
    },
    "test_engines.py": {
        "test_matrix_is_greedy": ("ward-*", "gaussian-*", "bernoulli-*"),
        "test_one_and_two_points": ("*-gaussian", "*-poisson", "*-categorical"),
    },
    "test_engine_bounded.py": {
        "test_own_gaussians_are_the_built_in": (),
    },
    "test_explanations.py": {
        "test_parts_add_up_to_the_cost_of_every_merge": ("with correlations",),
    },
    "test_families.py": {
        "test_log_prob_is_that_of_scipy": (
            "categories-*",
            "gaussian-*",
            "nbinom-*",
            "poisson-*",
            "truncated_poisson-*",
            "von_mises_fisher-*",
        ),
        "test_kl_divergence_of_boundary_parameters": ("poisson",),
        "test_mean_is_the_expectation_of_the_statistic": (
            "gaussian-*",
            "poisson-float64",
            "multinomial-float64",
        ),
    },
    "test_many_conjugates.py": {
        "test_values_are_right": ("float64-True-diagonal_gaussian",),
        "test_the_careful_solver_takes_what_is_left": (),
    },
    "test_missing_cells.py": {
        "test_float32_inside_jit": (),
        "test_greedy_costs_of_observed_cells": ("poisson", "own"),
        "test_costs_add_up_to_those_of_complete_columns": ("poisson",),
        "test_nothing_missing_is_as_complete_data": ("poisson", "diagonal_gaussian"),
        "test_gradients": ("bernoulli-observed",),
        "test_scaled_costs": ("poisson",),
        "test_equal_rows_merge_first_and_at_no_cost": ("poisson",),
        "test_columns_count_by_their_weights": ("observed",),
        "test_greedy_costs_under_a_blur_given": (),
    },
    "test_objectives.py": {
        "test_features_are_merge_costs": ("poisson",),
        "test_a_cut_costs_what_its_clusters_do": ("poisson",),
        "test_rows_on_the_boundary_have_derivatives": ("poisson",),
        "test_float32": (),
        "test_gradients": (),
        "test_likelihoods_against_scipy": (),
        "test_kernel_density_by_hand": (),
    },
    "test_partition.py": {
        "test_objectives_never_get_worse": ("gaussian", "poisson"),
    },
    "test_plain_kinks.py": {
        "test_smooth_functions_keep_all_their_digits": (),
        "test_costs_at_a_kink_are_those_of_the_definition": ("absolute", "largest"),
    },
    "test_precision.py": {
        "test_float32_gives_the_tree_of_float64": (),
        "test_bandwidths_far_above_the_spread": ("diagonal_gaussian",),
    },
    "test_problem.py": {
        "test_one_gradient_is_that_by_each_argument": (
            "gaussian",
            "multinomial",
            "poisson",
        ),
    },
    "test_products.py": {
        "test_a_weight_of_two_is_the_column_twice": (),
        "test_replay_of_a_batch": (),
        "test_tuning": (),
        "test_several_columns_of_categories": (),
    },
    "test_proportions.py": {
        "test_gradients_are_those_by_hand": ("float64-*",),
        "test_every_zero_beside_others_has_slope_minus_infinity": ("float64-*",),
    },
    "test_remainder.py": {
        "*": ("*negative_entropy*", "*log_sum_exp*", "*logistic*", "*sphere_cumulant*"),
        "test_derivatives_of_remainders": (
            "negative_entropy",
            "logistic",
            "squared_norm",
        ),
        "test_remainder_is_the_definition_and_zero_at_zero": (
            "negative_entropy",
            "log_sum_exp",
            "mahalanobis",
            "sphere_entropy",
        ),
        "test_closed_remainders_against_the_default": (
            "negative_entropy",
            "log_sum_exp",
            "logistic",
            "sphere_cumulant",
        ),
        "test_remainder_of_the_determinant_at_equal_eigenvalues": (),
    },
    "test_replay.py": {
        "test_gradients": ("gaussian", "poisson"),
        "test_parameters_of_psi": (),
    },
    "test_scatters.py": {
        "test_remainders_keep_their_digits": ("float64",),
        "test_gradients_in_80_digits": ("*-reciprocal",),
        "test_small_variations_keep_their_digits": ("*-inverse_gaussian",),
        "test_small_variations_are_gaussian": (),
        "test_equal_clusters_cost_nothing": ("float64-*",),
        "test_units_change_nothing": ("inverse_gaussian",),
        "test_pieces_of_a_sine": ("float64",),
    },
    "test_screening.py": {
        "test_bounds_of_functions": (
            "*-entropy",
            "float64-states-sphere",
            "float64-states-squared_norm",
            "float64-states-binary",
        ),
        "test_bounds_of_gaussians": ("float64-states-*",),
        "test_bounds_of_scatters": ("float64-states-reciprocal",),
        "test_marginals_of_many_dimensions": ("11",),
        "test_single_points_against_clusters": ("diagonal",),
        "test_fractions_are_the_closer_the_nearer": ("*function0",),
        "test_bounds_of_log_scatters_are_close_where_pairs_are": ("states-float64-*",),
    },
    "test_settling.py": {
        "test_columns_of_several_parameters_have_densities": (),
        "test_derivatives_of_every_order": ("separable",),
        "test_as_many_means_as_parameters": (),
        "test_gradients_compile_no_careful_solver": (),
        "test_dispersions_under_strict_promotion": (),
    },
    "test_shares.py": {
        "test_trees_are_greedy": ("False-*",),
        "test_weights_alone_may_be_traced": (),
    },
    "test_smoothing.py": {
        "test_centers_inside_pass": ("multinomial*", "poisson*", "ward*"),
        "test_units_change_no_tree": ("isotropic_gaussian",),
    },
    "test_soft_trees.py": {
        "test_draws_follow_the_probabilities": (),
        "test_probabilities_of_all_sequences": ("ward", "poisson"),
        "test_cold_trees_are_greedy": ("ward",),
        "test_gradient_of_an_expected_loss": (),
        "test_gradient_of_the_log_probability": (),
    },
    "test_sparse.py": {
        "test_trees_are_those_of_dense_rows": ("*g_uneven-real",),
        "test_trees_of_ties_are_certified": (
            "multinomial-none-whole",
            "bernoulli-mixing-ones",
            "ward-mixing-ones",
            "poisson-*-real",
        ),
        "test_gradients_are_those_of_dense_rows": ("dispersions-adding_uneven-whole",),
        "test_many_different_weights": ("multinomial-*", "bernoulli-*"),
        "test_memory_goes_with_entries": (),
    },
    "test_sparse_digits.py": {
        "test_costs_of_few_digits_are_compared_exactly": (
            "ward far from 0",
            "near, multinomial",
            "all but all mixed",
            "weights of any size",
        ),
        "test_features_where_pseudo_counts_leave_rows_another_floor": ("2.0-*",),
    },
    "test_sparse_partition.py": {
        "test_partitions_are_those_of_dense_rows": (
            "poisson-pseudo_count_uneven-real",
            "*-mixing-whole",
        ),
        "test_random_trees_are_those_of_dense_rows": ("ward-adding-real",),
        "test_costs_of_rows_close_to_their_cluster_have_digits": (
            "*-poisson",
            "0.001-*",
        ),
    },
    "test_sparse_rows.py": {
        "test_a_family_of_ones_own": (),
        "test_values_are_those_of_dense_rows": (),
        "test_gradients_are_those_of_dense_rows": (
            "assignments-multinomial-mixing_uneven-whole",
        ),
        "test_without_smoothing_rows_outside_have_no_density": ("poisson",),
    },
    "test_support.py": {
        "test_clear_clusters_are_supported": ("points",),
        "test_columns_against_a_loop": (),
        "test_errors": (),
    },
    "test_transformations.py": {
        "test_modes_agree": (),
    },
    "test_tuning.py": {
        "test_duplicates_end_at_the_floor": (),
        "test_a_second_call_compiles_nothing": (),
        "test_two_points": (),
        "test_ten_powers_of_ten": (),
        "test_other_maps": (),
        "test_an_objective_of_ones_own": (),
        "test_optimizers_agree": (),
        "test_columns_in_any_units": (),
        "test_the_number_of_trees_is_bounded": (),
        "test_shares_of_the_center_stay_positive": (),
    },
    "test_multiscale.py": {
        "test_trees_of_each_size_against_a_loop": (),
    },
    "test_forest_functions.py": {
        "test_co_clustering_of_forests": (),
    },
    "test_merges.py": {
        "test_derivatives": (),
        "test_models_sum_what_a_scan_pools": ("poisson", "gaussian"),
    },
    "test_samplers.py": {
        "test_clusters_of_a_table": ("auto",),
    },
    "test_num_clusters.py": {
        "test_families_that_solve": (),
        "test_sparse_rows_as_dense_ones": ("True",),
    },
    "test_count_families.py": {
        "test_derivatives_by_the_dispersion": (),
    },
    "test_num_parameters.py": {
        "test_counts_are_ranks": (*FAMILIES, "diagonal_gaussian", "truncated_poisson"),
    },
    "test_windowed_quick.py": {
        "test_trees_of_diagonal_gaussians_are_greedys": ("*-alike-*",),
        "test_a_matrix_leads_to_the_same_tree": ("*-alike-*",),
        "test_compiled_bounds_lead_to_the_same_tree": ("0.01", "1e-05"),
    },
    "test_rough_gaussians.py": {
        "test_trees_are_greedy": ("groups-*", "units-0.001"),
        "test_costs_are_off_by_no_more_than_they_say": ("groups-*", "units-*"),
    },
    "test_interrupted.py": {
        "test_what_is_left_goes_on_to_the_same_tree": (
            "*-numpy",
            "*-mutual",
            "x1-*-windowed",
        ),
    },
    "test_narrow_bandwidths.py": {
        "test_tuning_from_far_below": (),
        "test_tuning_ends_where_digits_do": (),
        "test_derivatives_with_and_without_roots": (),
        "test_costs_of_narrow_bandwidths": ("1e-06",),
        "test_engines_agree": ("matrix", "windowed"),
        "test_every_smoothing_keeps_roots": ("adding", "blur"),
        "test_derivatives_by_bandwidth": ("0.1-True",),
    },
    "test_windowed.py": {
        "test_failed_checks_happen_and_are_repaired": (),
        "test_every_cost_on_plain_weighted_and_badly_scaled_rows": (
            "ward",
            "gaussian",
            "poisson",
        ),
        "test_screens_keep_their_digits_where_more_would_not_help": (),
        "test_hostile_rows": ("gaussian", "poisson", "diagonal_gaussian"),
    },
    "test_windowed_cached.py": {
        "test_the_tree_is_greedy_s": (),
        "test_what_does_not_fit_is_merged_one_at_a_time": (),
    },
    "test_windowed_parts.py": {
        "test_pairs_within_a_limit": ("*-ward", "40-*"),
        "test_loose_bounds_of_single_pairs_hide_none": ("*-0.3",),
        "test_where_costs_cannot_be_had_it_ends": (),
    },
    "test_windowed_singly.py": {
        "test_what_is_known_afterwards_holds": (),
        "test_in_single_precision_too": (),
        "test_work_is_linear_in_rows_whatever_the_bandwidth": (),
        "test_merges_in_one_program_are_greedy_s": ("ordinary-poisson",),
    },
}


def is_by_request(file: str, name: str, case: str) -> bool:
    """Whether a case of a test is left out of the default run; "" for the only one.

    "*" names the sweeps over convex functions that have no entry of their own.
    """
    parts = case.split("-")
    if file not in DIGITS and "float32" in (parts[0], parts[-1]):
        return True
    tests = DEFAULT.get(file, {})
    if name not in tests and not (set(parts) & CONVEX.keys()):
        return False
    patterns = tests.get(name, tests.get("*"))
    return patterns is not None and not any(fnmatchcase(case, p) for p in patterns)
