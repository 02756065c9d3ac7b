//! The list of all kernels. A new one adds its name here and nothing anywhere else.

use crate::kernel::KernelSpec;

/// Declares the families and the list: `family { kernel, kernel; module that several of them share }`.
macro_rules! kernels {
    ($( $(#[doc = $doc:literal])+ $family:ident { $($kernel:ident),* $(,)? $(; $($shared:ident),*)? } )*) => {
        $(
            $(#[doc = $doc])+
            pub mod $family { $(pub mod $kernel;)* $($(pub mod $shared;)*)? }
        )*
        /// Every kernel, in the order of this list.
        pub static KERNELS: &[&KernelSpec] = &[ $($(&$family::$kernel::SPEC),*),* ];
    };
}

kernels! {
    /// Dense linear algebra.
    linalg {
        matmul, row_affine, row_dot, column_sums, sum_chunks, mask_weights, gram, scale_rows, reduce_sum, scan, transpose,
        identity_distance, inverse_residual, inverse_fallback, inverse_choice, newton_schulz, newton_schulz_start,
        newton_schulz_workgroup, newton_schulz_trace,
    }
    /// Laplacian and Gaussian kernels, landmarks and Nyström attention.
    laplacian { kernel_matrix, pool_tokens, nystrom_row, nystrom_attention, nystrom_map; nystrom }
    /// Feature maps of linear attention.
    feature { feature_map, feature_pointwise, feature_rows, feature_exp, segment_max, segment_shift }
    /// Linear attention through a feature map: plain, causal, with decay, in segments.
    linear {
        linear_attention, append_one, divide_rows, state_rows, causal_attention, decay_powers, chunk_states, scan_states, chunk_attend,
        attention_step, step_state, separable_attention, axis_scan, outer_rows, contract_rows;
        chunks
    }
    /// Functions of single elements.
    elementwise { exp_scale, weighted_sum, add_words }
    /// Pictures to numbers and back, and work on the token grid.
    image { to_linear, oklab, patchify, fuse_heads, colormap, depthwise_conv }
    /// Searches for what should not be there.
    check { find_nonfinite, nonfinite_parts, nonfinite_merge }
    /// What a device can do at best, for `wgattn bench`.
    probe { probe_fma, probe_abs_difference, probe_copy, probe_exp, probe_load, probe_store, probe_gather, probe_overlap, probe_stage }
    /// Fourier transforms, of the line and of the hypercube.
    fft { fft, fft_line, fft_pass, walsh_hadamard, walsh_pass; plan }
    /// Masks as linear operators on channels, by relative position: block-Toeplitz products, and pair by pair.
    mask {
        toeplitz_product, toeplitz_spectrum, circulant_embed, toeplitz_attention_sums, toeplitz_attention_fused, toeplitz_lift,
        toeplitz_contract, pack_rows, unpack_rows, relative_attention, relative_rows, relative_map, weigh_rows, choose_rows, column_norms, noise_guard, noise_flags,
        count_flags, list_flags, masked_attention, mirror_grid;
        fourier, grid, path, relative
    }
    /// Sparse operators of graphs: products, and expansions in their powers.
    graph { spmm, chebyshev_step, chebyshev, stencil_step, graph_attention, join_heads, segment_mean; csr, steps }
    /// Masks by distance between nodes: products and attention on packed distances.
    distance { distance_product, distance_attention; pairs }
    /// Sums over the nodes of trees by distance.
    tree { tree_collect, tree_spread, tree_gather; hankel, layout, levels, sweeps }
    /// Stochastic position codes: noise by place, waves, filters, and putting codes on tokens.
    position { philox_words, counter_noise, sine_features, sine_code, conv_code, filter_noise, apply_code }
    /// Attention forms whose cost is all pairs of tokens.
    attention {
        attention_rows, attention_merge, exact_attention, exact_row, key_moments, key_moments_part, exact_attention_whitened,
        exact_map, whiten_rows,
    }
}

/// The kernel of a name.
pub fn find(name: &str) -> Option<&'static KernelSpec> {
    KERNELS.iter().copied().find(|k| k.name == name)
}

/// The list as a Markdown table: name, formula, how it runs on wgpu and on CUDA, source.
pub fn markdown_table() -> String {
    use crate::kernel::{OnCuda, OnWgpu};
    let mut table =
        String::from("| kernel | computes | on wgpu | on CUDA | source |\n|---|---|---|---|---|\n");
    for kernel in KERNELS {
        let how = match &kernel.wgpu {
            OnWgpu::Expand(_) => "expands".to_string(),
            OnWgpu::Shader(variants) => variants.iter().map(|v| v.name).collect::<Vec<_>>().join(", "),
        };
        let cuda = match &kernel.cuda {
            OnCuda::Source(sources) => sources.iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
            OnCuda::Library(library, _) => library.title().into(),
            OnCuda::Expand => "expands".into(),
        };
        let formula = kernel.formula.replace('|', "\\|");
        table.push_str(&format!(
            "| `{}` | `{formula}` | {how} | {cuda} | {} |\n",
            kernel.name,
            kernel.source.replace('|', "\\|")
        ));
    }
    table
}
