// Text that knows, byte by byte, who wrote it: the template or somebody else. Every operation of
// the renderer keeps that, so that what a user wrote can be told from the template's words in the
// result, however it was cut and joined on the way.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_TEXT_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_TEXT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rserve::model::jinja {

// Immutable; copies share their bytes.
class Text {
 public:
  // Bytes [the run before's end, end) have one author. Neighbours differ.
  struct Run {
    size_t end = 0;
    bool trusted = false;  // the template's own
  };

  Text() = default;
  Text(std::string bytes, bool trusted);

  std::string_view bytes() const {
    return rep_ == nullptr ? std::string_view() : std::string_view(rep_->bytes);
  }
  size_t size() const { return bytes().size(); }
  bool empty() const { return size() == 0; }
  const std::vector<Run>& runs() const;
  // Whether every byte is the template's.
  bool trusted() const;

  // `count` bytes from `begin`, or what there is of them.
  Text Slice(size_t begin, size_t count = std::string_view::npos) const;
  // The same authors, other bytes: `bytes` is as long as this text.
  Text WithBytes(std::string bytes) const;

 private:
  friend class TextBuilder;
  struct Rep {
    std::string bytes;
    std::vector<Run> runs;
  };
  std::shared_ptr<const Rep> rep_;  // null: empty
};

// Joins texts.
class TextBuilder {
 public:
  void Add(const Text& text);
  void Add(std::string_view bytes, bool trusted);
  size_t size() const { return rep_.bytes.size(); }
  Text Take() &&;

 private:
  Text::Rep rep_;
};

// ---- Characters, as Python's str has them; texts are valid UTF-8.

// Bytes of the character that begins at `at`.
size_t CharBytes(std::string_view text, size_t at);
size_t CountChars(std::string_view text);
// Whether str.isspace() holds for the character at `at`, of `length` bytes.
bool IsSpace(std::string_view text, size_t at, size_t length);

// str.strip and its like: the bytes [begin, end) that are left. `chars` null: white space.
struct Range {
  size_t begin = 0, end = 0;
};
Range Strip(std::string_view text, const std::string_view* chars, bool left, bool right);

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_TEXT_H_
