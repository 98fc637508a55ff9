//! What is known of a request.

use std::ptr::{null_mut, NonNull};

use rserve_sys as sys;

use crate::error::{call, slice, Result};

/// A picture of a planned request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Item {
    /// Its rows are the prompt's tokens from here on.
    pub token_begin: i64,
    /// How many.
    pub tokens: i64,
    /// In pixels.
    pub resized_width: i32,
    /// In pixels.
    pub resized_height: i32,
    /// Patches in time, down and across.
    pub grid: [i32; 3],
}

impl Item {
    pub(crate) fn from_c(item: &sys::rserve_item) -> Item {
        Item {
            token_begin: item.token_begin,
            tokens: item.tokens,
            resized_width: item.resized_width,
            resized_height: item.resized_height,
            grid: [item.grid_t, item.grid_h, item.grid_w],
        }
    }
}

/// A snapshot of a request: immutable, outlives acknowledge and the engine.
pub struct Detail(NonNull<sys::rserve_detail>);

// SAFETY: immutable after its making; all its functions but destroy are [any-thread].
unsafe impl Send for Detail {}
// SAFETY: the same.
unsafe impl Sync for Detail {}

impl Drop for Detail {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        unsafe { sys::rserve_detail_destroy(self.0.as_ptr()) };
    }
}

impl Detail {
    /// # Safety
    /// `engine` lives.
    pub(crate) unsafe fn take(engine: *const sys::rserve_engine, id: u64) -> Result<Detail> {
        let mut detail = null_mut();
        // SAFETY: the caller's promise.
        call(|err| unsafe { sys::rserve_request_detail(engine, id, &mut detail, err) })?;
        Ok(Detail(NonNull::new(detail).expect("a detail after OK")))
    }

    /// Times and counts, as C has them.
    pub fn info(&self) -> Result<sys::rserve_detail_info> {
        let mut info = sys::rserve_detail_info::init();
        // SAFETY: the handle lives; `info` says its size.
        call(|err| unsafe { sys::rserve_detail_get_info(self.0.as_ptr(), &mut info, err) })?;
        Ok(info)
    }

    /// A picture of it; `OutOfRange` for an index that is none.
    pub fn item(&self, index: usize) -> Result<Item> {
        let mut item = sys::rserve_item::init();
        // SAFETY: the handle lives; `item` says its size.
        call(|err| unsafe { sys::rserve_detail_get_item(self.0.as_ptr(), index, &mut item, err) })?;
        Ok(Item::from_c(&item))
    }

    fn view<T>(
        &self,
        get: unsafe extern "C" fn(*const sys::rserve_detail, *mut usize) -> *const T,
    ) -> &[T] {
        let mut count = 0;
        // SAFETY: memory of the detail, which lives and does not change as long as `self`.
        unsafe {
            let data = get(self.0.as_ptr(), &mut count);
            slice(data, count)
        }
    }

    /// Why the request failed; empty if it did not.
    pub fn message(&self) -> String {
        let bytes = self.view(sys::rserve_detail_message).iter().map(|&byte| byte as u8).collect();
        String::from_utf8(bytes)
            .unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned())
    }

    /// The prompt's token ids, placeholders expanded.
    pub fn tokens(&self) -> &[i32] {
        self.view(sys::rserve_detail_tokens)
    }

    /// The logits of the prompt's last token; empty when they are not kept or not there yet.
    pub fn logits(&self) -> &[f32] {
        self.view(sys::rserve_detail_logits)
    }

    /// The pictures' embeddings in prompt order, rows of the model's hidden size; empty as logits.
    pub fn embeddings(&self) -> &[f32] {
        self.view(sys::rserve_detail_embeddings)
    }
}
