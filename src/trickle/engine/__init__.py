"""The embedded Spark: which Java runs it, which jars it loads, how its session is set up."""
