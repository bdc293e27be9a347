"""The interpreter behind `directional_derivative`: rays through jaxprs."""
