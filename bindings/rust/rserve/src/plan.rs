//! What a request would need.

use std::ptr::{null_mut, NonNull};

use rserve_sys as sys;

use crate::detail::Item;
use crate::error::{call, slice, Code, Error, Result};

/// A request that was planned and not run: immutable, outlives the engine.
pub struct Plan(NonNull<sys::rserve_plan>);

// SAFETY: immutable after its making; all its functions but destroy are [any-thread].
unsafe impl Send for Plan {}
// SAFETY: the same.
unsafe impl Sync for Plan {}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        unsafe { sys::rserve_plan_destroy(self.0.as_ptr()) };
    }
}

impl Plan {
    /// # Safety
    /// `engine` lives and `request` is whole.
    pub(crate) unsafe fn make(
        engine: *const sys::rserve_engine,
        request: *const sys::rserve_request,
    ) -> Result<Plan> {
        let mut plan = null_mut();
        // SAFETY: the caller's promise.
        call(|err| unsafe { sys::rserve_engine_plan(engine, request, &mut plan, err) })?;
        Ok(Plan(NonNull::new(plan).expect("a plan after OK")))
    }

    /// Sizes, as C has them.
    pub fn info(&self) -> Result<sys::rserve_plan_info> {
        let mut info = sys::rserve_plan_info::init();
        // SAFETY: the handle lives; `info` says its size.
        call(|err| unsafe { sys::rserve_plan_get_info(self.0.as_ptr(), &mut info, err) })?;
        Ok(info)
    }

    /// Whether the engine would take the request, or why not.
    pub fn fits(&self) -> Result<()> {
        match self.info()?.fits {
            sys::RSERVE_STATUS_OK => Ok(()),
            status => {
                let bytes: Vec<u8> =
                    self.view(sys::rserve_plan_message).iter().map(|&byte| byte as u8).collect();
                Err(Error::new(Code::of(status), String::from_utf8_lossy(&bytes)))
            }
        }
    }

    /// A picture of it; `OutOfRange` for an index that is none.
    pub fn item(&self, index: usize) -> Result<Item> {
        let mut item = sys::rserve_item::init();
        // SAFETY: the handle lives; `item` says its size.
        call(|err| unsafe { sys::rserve_plan_get_item(self.0.as_ptr(), index, &mut item, err) })?;
        Ok(Item::from_c(&item))
    }

    fn view<T>(
        &self,
        get: unsafe extern "C" fn(*const sys::rserve_plan, *mut usize) -> *const T,
    ) -> &[T] {
        let mut count = 0;
        // SAFETY: memory of the plan, which lives and does not change as long as `self`.
        unsafe {
            let data = get(self.0.as_ptr(), &mut count);
            slice(data, count)
        }
    }

    /// The prompt's token ids, placeholders expanded.
    pub fn tokens(&self) -> &[i32] {
        self.view(sys::rserve_plan_tokens)
    }

    /// M-RoPE positions, \[3\]\[prompt tokens\]: temporal, height, width.
    pub fn positions(&self) -> &[i32] {
        self.view(sys::rserve_plan_positions)
    }
}
