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
    linalg { matmul, scale_rows }
    /// Attention forms whose cost is all pairs of tokens.
    attention { attention_rows, attention_merge, exact_attention, key_moments, exact_attention_whitened }
}

/// The kernel of a name.
pub fn find(name: &str) -> Option<&'static KernelSpec> {
    KERNELS.iter().copied().find(|k| k.name == name)
}
