// Chat templates: the part of Jinja2 that the templates of Qwen models, and most others, are made
// of, rendered as transformers does (trim_blocks, lstrip_blocks, undefined names print nothing).
//
//   statements  for (with if, else, break, continue), if/elif/else, set, set blocks, macro,
//               generation
//   expressions literals, names, attributes, items, slices, the operators but **, comparisons (one
//   at
//               a time), and/or/not, in, conditional, calls of namespace, range, raise_exception
//               and macros, and the filters, tests and methods of builtins.cc
//   loop        index, index0, revindex, revindex0, first, last, length, depth, depth0, previtem,
//               nextitem
//
// Whatever else a template holds is refused when it is parsed, with its name and line. Rendering is
// bounded in time and memory whatever the template does.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_TEMPLATE_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_TEMPLATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/model/spec/jinja/value.h"

namespace rserve::model::jinja {

struct RenderLimits {
  size_t max_output_bytes = size_t{64} << 20;
  // Units of work: an expression or statement is one, and so are 16 bytes of text that it makes. A
  // unit takes 50 to 100 ns.
  int64_t max_work = int64_t{1} << 22;
};

// Immutable; any thread may render.
class Template {
 public:
  static constexpr size_t kMaxSourceBytes = size_t{1} << 20;

  // INVALID_ARGUMENT or UNIMPLEMENTED, with the line.
  static absl::StatusOr<std::unique_ptr<const Template>> Parse(std::string_view source);
  ~Template();

  // `variables` are what the template's names mean. INVALID_ARGUMENT for what the template refuses
  // (raise_exception) or what does not go together, UNIMPLEMENTED, RESOURCE_EXHAUSTED at a limit;
  // each with the line. In the result, what the template wrote is trusted and nothing else is.
  absl::StatusOr<Text> Render(const Entries& variables, const RenderLimits& limits) const;

 private:
  struct Impl;
  explicit Template(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_TEMPLATE_H_
