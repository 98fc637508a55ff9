//! poll(2), which the standard library does not have.

use std::ffi::{c_int, c_short, c_ulong};
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

const POLLIN: c_short = 1;

extern "C" {
    fn poll(fds: *mut PollFd, count: c_ulong, timeout_ms: c_int) -> c_int;
}

/// Waits until one of the descriptors is readable or the time is over (None: never), and says which
/// are. Interruptions by signals do not count.
pub(crate) fn readable<const N: usize>(
    fds: [RawFd; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut polled = fds.map(|fd| PollFd { fd, events: POLLIN, revents: 0 });
    loop {
        let timeout_ms = match deadline {
            None => -1,
            Some(deadline) => {
                // Rounded up: a wait that ends early would spin.
                let left = deadline.saturating_duration_since(Instant::now());
                c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
            }
        };
        // SAFETY: `polled` is an array of N that lives for the call.
        let ready = unsafe { poll(polled.as_mut_ptr(), N as c_ulong, timeout_ms) };
        if ready >= 0 {
            return Ok(polled.map(|one| one.revents != 0));
        }
        let err = io::Error::last_os_error();
        if err.kind() != io::ErrorKind::Interrupted {
            return Err(err);
        }
    }
}
