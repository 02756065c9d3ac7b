//! The list of all kernels. A new one adds its name here and nothing anywhere else.

use crate::kernel::KernelSpec;

/// Declares the families and the list: `family { kernel, kernel }`.
macro_rules! kernels {
    ($( $(#[doc = $doc:literal])+ $family:ident { $($kernel:ident),* $(,)? } )*) => {
        $(
            $(#[doc = $doc])+
            pub mod $family { $(pub mod $kernel;)* }
        )*
        /// Every kernel, in the order of this list.
        pub static KERNELS: &[&KernelSpec] = &[ $($(&$family::$kernel::SPEC),*),* ];
    };
}

kernels! {
    /// Dense linear algebra.
    linalg { matmul }
    /// Functions of single elements.
    elementwise { exp_scale }
    /// Pictures to numbers and back, and work on the token grid.
    image { to_linear, oklab, patchify, colormap, depthwise_conv }
    /// Searches for what should not be there.
    check { find_nonfinite, nonfinite_parts, nonfinite_merge }
}

/// The kernel of a name.
pub fn find(name: &str) -> Option<&'static KernelSpec> {
    KERNELS.iter().copied().find(|k| k.name == name)
}
