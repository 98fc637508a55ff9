//! Macros for the declarations. Beside the declaration each keeps, for the tests, a table of what was
//! declared, as text and as numbers.

/// Constants of one C type each.
macro_rules! c_constants {
    ($($(#[$meta:meta])* pub const $name:ident: $ty:ty = $value:expr;)*) => {
        $($(#[$meta])* pub const $name: $ty = $value;)*
        #[cfg(test)]
        pub(crate) const CONSTANTS: &[(&str, i128)] = &[$((stringify!($name), $name as i128)),*];
    };
}

/// Types that only librserve can look into: used behind pointers.
macro_rules! c_handles {
    ($($(#[$meta:meta])* pub struct $name:ident;)*) => {$(
        $(#[$meta])*
        #[repr(C)]
        pub struct $name {
            _data: [u8; 0],
            // Neither Send nor Sync nor Unpin: the safe crate says what may be shared.
            _marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}

/// Structs with the C layout.
macro_rules! c_structs {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident: $ty:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $ty,)*
            }
        )*
        #[cfg(test)]
        pub(crate) const STRUCTS: &[crate::abi_test::Struct] = &[$(crate::abi_test::Struct {
            name: stringify!($name),
            size: std::mem::size_of::<$name>(),
            fields: &[$((
                stringify!($field),
                std::mem::offset_of!($name, $field),
                stringify!($ty),
            )),*],
        }),*];
    };
}

/// `init()` as the header's _INIT macros: zero but for `struct_size` and what is named.
macro_rules! c_init {
    ($($name:ident $({ $field:ident: $value:expr })?),* $(,)?) => {$(
        impl $name {
            /// What the header's `_INIT` macro of this struct gives.
            pub fn init() -> Self {
                // SAFETY: integers, floats and nullable pointers; all of them may be zero.
                let zero: Self = unsafe { std::mem::zeroed() };
                Self { struct_size: std::mem::size_of::<Self>() as u32, $($field: $value,)? ..zero }
            }
        }
    )*};
}

/// Functions of librserve.
macro_rules! c_functions {
    ($($(#[$meta:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        extern "C" {
            $($(#[$meta])* pub fn $name($($arg: $ty),*) $(-> $ret)?;)*
        }
        #[cfg(test)]
        pub(crate) const FUNCTIONS: &[crate::abi_test::Function] = &[$(crate::abi_test::Function {
            name: stringify!($name),
            args: &[$(stringify!($ty)),*],
            ret: concat!($(stringify!($ret))?),
        }),*];
    };
}
