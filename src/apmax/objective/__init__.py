"""What is optimised: surrogates ℓ, the outer f(u) = −u₁/u₂ with its box Ω, and exact ÂP."""
