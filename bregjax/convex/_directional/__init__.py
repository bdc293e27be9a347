"""The interpreter behind `directional_derivative`, which walks jaxprs along rays."""
