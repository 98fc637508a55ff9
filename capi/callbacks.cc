#include "capi/callbacks.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "capi/structs.h"
#include "rserve/cc/engine.h"

namespace rserve::capi {

namespace {

// The pointer field at `offset`, if the caller's struct of `size` bytes has it.
template <typename T>
const T* PointerAt(const void* base, size_t size, size_t offset) {
  if (size < offset + sizeof(const T*)) return nullptr;
  const T* pointer = nullptr;
  std::memcpy(&pointer, static_cast<const char*>(base) + offset, sizeof(pointer));
  return pointer;
}

}  // namespace

TakenCallbacks TakeCallbacks(const rserve_engine_config& config) {
  uint32_t size = 0;
  std::memcpy(&size, &config, sizeof(size));
  TakenCallbacks taken;
  taken.log = TakeCallback(
      "rserve_log", PointerAt<rserve_log>(&config, size, offsetof(rserve_engine_config, log)),
      &taken.status);
  taken.progress = TakeCallback(
      "rserve_load_progress",
      PointerAt<rserve_load_progress>(&config, size, offsetof(rserve_engine_config, load_progress)),
      &taken.status);
  return taken;
}

void WriteLog(const rserve_log& log, int32_t level, const std::string& message) {
  if (log.write == nullptr) return;
  rserve_log_record record{};
  record.struct_size = sizeof(record);
  record.level = level;
  record.t_mono_ns = Engine::now_ns();
  record.message = message.c_str();
  record.message_length = message.size();
  log.write(log.ctx, &record);
}

}  // namespace rserve::capi
