"""The variables a result can hold, with their labels (design §6)."""

from __future__ import annotations

# Dims after an optional "time"; "output"/"output_" are dropped when C = 1.
DIMS: dict[str, tuple[str, ...]] = {
    "f": ("time", "sample", "output"),
    "delta": ("time", "sample", "output"),
    "loss": ("time",),
    "entk": ("time", "sample", "sample_", "output", "output_"),
    "phi": ("time", "layer", "sample", "sample_"),
    "g": ("time", "layer", "sample", "sample_", "output", "output_"),
    "g_tilde": ("time", "layer", "sample", "sample_", "output", "output_"),
    "g_tilde_tilde": ("time", "layer", "sample", "sample_", "output", "output_"),
    "phi_positions": ("time", "layer", "sample", "sample_", "position", "position_"),
    "g_tilde_positions": ("time", "layer", "sample", "sample_", "position", "position_", "output", "output_"),
    "entk_alignment": ("time",),
    "phi_alignment": ("time", "layer"),
    "gradient_cosine": ("time", "layer"),
    "accuracy": ("time",),
    "f_test": ("time", "test_sample", "output"),
    "test_loss": ("time",),
    "test_accuracy": ("time",),
    # Two-time objects, on request; `step` and `step_` count training steps.
    "phi_two_time": ("layer", "step", "step_", "sample", "sample_"),
    "g_two_time": ("layer", "step", "step_", "sample", "sample_"),
    "g_tilde_two_time": ("layer", "step", "step_", "sample", "sample_"),
    "g_tilde_tilde_two_time": ("layer", "step", "step_", "sample", "sample_"),
    "response_a": ("inner_layer", "step", "step_", "sample", "sample_"),
    "response_b": ("inner_layer", "step", "step_", "sample", "sample_"),
    "response_c": ("inner_layer", "step", "step_", "sample", "sample_"),
    "response_d": ("inner_layer", "step", "step_", "sample", "sample_"),
    # Single neurons: the last preactivations of a bounded number of them, and trajectories on request.
    "h_final": ("layer", "sample", "neuron"),
    "h_particles": ("time", "layer", "sample", "neuron"),
    "z_particles": ("time", "layer", "sample", "neuron"),
    "g_tilde_particles": ("time", "layer", "sample", "neuron"),
}

DESCRIPTIONS: dict[str, str] = {
    "f": "network output",
    "delta": "error signal, −∂loss/∂f",
    "loss": "loss, summed over training points",
    "entk": "effective neural tangent kernel K; row: true gradient, column: pseudo-gradient",
    "phi": "feature kernel ⟨φφ⟩",
    "g": "gradient kernel ⟨gg⟩",
    "g_tilde": "gradient/pseudo-gradient kernel ⟨g g̃⟩",
    "g_tilde_tilde": "pseudo-gradient kernel ⟨g̃g̃⟩",
    "phi_positions": "feature kernel ⟨φφ⟩ between positions of a CNN",
    "g_tilde_positions": "gradient/pseudo-gradient kernel ⟨g g̃⟩ between positions of a CNN",
    "entk_alignment": "cosine similarity of K with yyᵀ",
    "phi_alignment": "cosine similarity of Φ with yyᵀ",
    "gradient_cosine": "cosine of gradient and pseudo-gradient, mean over points",
    "accuracy": "fraction of training points classified rightly",
    "f_test": "network output on test points",
    "test_loss": "loss, summed over test points",
    "test_accuracy": "fraction of test points classified rightly",
    "h_final": "last preactivations of some neurons",
    "h_particles": "preactivations h of some neurons",
    "z_particles": "pre-gradient fields z of some neurons",
    "g_tilde_particles": "pseudo-gradients g̃ of some neurons",
}

# Single neurons are draws, not estimates: they carry no standard error.
DRAWS = frozenset({"h_final", "h_particles", "z_particles", "g_tilde_particles"})
