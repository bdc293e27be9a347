"""How clusters of a ψ without a closed form are solved for."""
