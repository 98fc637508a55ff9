#include "tests/media/work_counter.h"

#include <dlfcn.h>
#include <malloc.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

// The C library's own, under the names that it keeps for those who replace malloc.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);
}

namespace {

int64_t live_bytes = 0, peak_bytes = 0, steps = 0, unpacked = 0;
bool counting = false;

void* Came(void* block) {
  if (!counting || block == nullptr) return block;
  live_bytes += static_cast<int64_t>(malloc_usable_size(block));
  peak_bytes = std::max(peak_bytes, live_bytes);
  return block;
}

void Goes(void* block) {
  if (counting && block != nullptr) live_bytes -= static_cast<int64_t>(malloc_usable_size(block));
}

}  // namespace

// Seen by the shared libraries, which look their malloc and inflate up by name.
#pragma GCC visibility push(default)
extern "C" {

void* malloc(size_t size) { return Came(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return Came(__libc_calloc(count, size)); }
void* realloc(void* block, size_t size) {
  Goes(block);
  void* moved = __libc_realloc(block, size);
  // What could not grow is still there.
  (void)Came(moved == nullptr && size > 0 ? block : moved);
  return moved;
}
void* memalign(size_t alignment, size_t size) { return Came(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* block = memalign(alignment, size);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}
void free(void* block) {
  Goes(block);
  __libc_free(block);
}

int inflate(z_streamp stream, int flush) {
  using Inflate = int (*)(z_streamp, int);
  static const auto real = reinterpret_cast<Inflate>(dlsym(RTLD_NEXT, "inflate"));
  const uInt room = stream->avail_out;
  const int result = real(stream, flush);
  unpacked += room - stream->avail_out;
  return result;
}

void __sanitizer_cov_trace_pc() { ++steps; }

}  // extern "C"
#pragma GCC visibility pop

namespace rserve::testing {

Work WorkOf(absl::FunctionRef<void()> call) {
  live_bytes = peak_bytes = steps = unpacked = 0;
  counting = true;
  call();
  counting = false;
  return {peak_bytes, steps, unpacked};
}

}  // namespace rserve::testing
