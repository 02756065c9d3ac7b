//! Parameters of a kernel: plain structs of 4-byte scalars with a table of their fields.
//!
//! `live` fields travel in the uniform block and may change between two encodes; `fixed` ones become constants of
//! the shader, so a change of them compiles another pipeline.

use bytemuck::Pod;

/// A scalar that fits a parameter field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// `f32`.
    F32,
    /// `u32`.
    U32,
}

/// Where a parameter lives in the shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In the uniform block; changes without recompiling.
    Live,
    /// A constant of the shader (or a choice the expansion makes); changes recompile.
    Fixed,
}

/// One field of a parameter struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name, the same in Rust, WGSL and on the command line.
    pub name: &'static str,
    /// Its scalar type.
    pub number: Number,
    /// Where it lives.
    pub role: Role,
    /// Its documentation.
    pub doc: &'static str,
}

impl Field {
    /// The field's bytes in a struct whose fields are `fields`.
    pub fn bytes_in<'a>(&self, fields: &[Self], params: &'a [u8]) -> &'a [u8] {
        let index =
            fields.iter().position(|f| f.name == self.name).expect("the field is one of the struct's");
        &params[4 * index..4 * index + 4]
    }
}

/// A parameter struct: only 4-byte scalars, so that the same bytes serve WGSL, CUDA and the CPU.
pub trait KernelParams: Pod {
    /// Its fields in order.
    const FIELDS: &'static [Field];

    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        bytemuck::bytes_of(self).to_vec()
    }

    /// The struct from its bytes.
    fn from_bytes(bytes: &[u8]) -> Self {
        bytemuck::pod_read_unaligned(bytes)
    }
}

/// The struct of a kernel without parameters.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct NoParams {}

impl KernelParams for NoParams {
    const FIELDS: &'static [Field] = &[];
}

/// Declares a parameter struct: `live name: f32 = default` or `fixed name: u32 = default`.
#[macro_export]
macro_rules! params {
    ($(#[$outer:meta])* pub struct $name:ident { $( $(#[doc = $doc:literal])+ $role:ident $field:ident : $ty:ident = $default:expr ),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(C)]
        pub struct $name { $( $(#[doc = $doc])+ pub $field: $ty ),* }
        impl Default for $name {
            fn default() -> Self { Self { $( $field: $default ),* } }
        }
        impl $crate::kernel::KernelParams for $name {
            const FIELDS: &'static [$crate::kernel::Field] = &[ $( $crate::kernel::Field {
                name: stringify!($field),
                number: $crate::params!(@number $ty),
                role: $crate::params!(@role $role),
                doc: concat!($($doc),+),
            } ),* ];
        }
        impl $name {
            /// The default parameters as bytes.
            pub fn default_bytes() -> Vec<u8> {
                $crate::kernel::KernelParams::to_bytes(&Self::default())
            }
        }
    };
    (@number f32) => { $crate::kernel::Number::F32 };
    (@number u32) => { $crate::kernel::Number::U32 };
    (@role live) => { $crate::kernel::Role::Live };
    (@role fixed) => { $crate::kernel::Role::Fixed };
}
