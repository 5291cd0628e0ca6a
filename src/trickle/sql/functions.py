"""What Spark's functions are, as far as it matters here. A test holds the lists against Spark's own registry."""

from __future__ import annotations

AGGREGATES = frozenset(
    """any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
    array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
    collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every first first_value
    grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
    kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value
    listagg max max_by mean median min min_by mode percentile percentile_approx percentile_cont percentile_disc
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std
    stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg
    try_sum var_pop var_samp variance""".split()
)

GENERATORS = frozenset("explode explode_outer inline inline_outer posexplode posexplode_outer stack".split())

ROWS_FROM_ARGUMENTS = GENERATORS | frozenset(
    "collations json_tuple range sql_keywords variant_explode variant_explode_outer".split()
)
"""Functions that may stand in FROM and read no table there."""

WINDOW_ONLY = frozenset("cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number".split())

NONDETERMINISTIC = frozenset(
    """rand randn random randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length now current_timestamp current_date curdate localtimestamp
    current_time current_user user session_user current_database current_schema current_catalog current_timezone
    version""".split()
)
"""Functions whose value depends on when, where or by whom they are evaluated."""

ORDER_DEPENDENT = frozenset(
    """any_value array_agg collect_list collect_set first first_value last last_value listagg mode string_agg max_by
    min_by histogram_numeric""".split()
)
"""Aggregates that Spark does not promise to repeat, because they depend on the order of rows; see decision record 5."""

WITHOUT_PARENTHESES = frozenset(
    "current_timestamp current_date localtimestamp current_time current_user user session_user".split()
)
"""Those of them that SQL lets one call without parentheses."""
