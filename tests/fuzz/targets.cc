#include "tests/fuzz/targets.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "src/media/gif_video.h"
#include "src/media/image.h"
#include "src/media/video.h"
#include "src/model/spec/chat_json.h"
#include "src/model/spec/chat_template.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/jinja/template.h"
#include "src/model/spec/model_config.h"
#include "src/model/spec/prompt_plan.h"
#include "src/model/spec/tokenizer.h"
#include "src/model/spec/video_plan.h"
#include "src/model/weights/safetensors_header.h"

// FFmpeg writes about every damaged file; there only in builds with it.
extern "C" void av_log_set_level(int level) __attribute__((weak));

namespace rserve::fuzz {
namespace {

// What must hold, in every build type.
void Check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

std::string_view Text(Bytes input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// A header that plans is kept by the decoder, whatever the bytes say.
void RunImage(Bytes input) {
  constexpr media::ImageLimits kLimits{1 << 14};
  const auto header = media::ReadImageHeader(input, kLimits);
  const auto image = media::DecodeImage(input, kLimits);
  if (!header.ok()) {
    Check(!image.ok(), "no header, no image");
    return;
  }
  Check(header->width >= 1 && header->height >= 1 &&
            header->width * header->height <= kLimits.max_pixels,
        "the size is within the limit");
  if (!image.ok()) return;
  Check(image->width == header->width && image->height == header->height,
        "the decoder keeps the header's size");
  Check(image->data.size() == static_cast<size_t>(header->width * header->height * 3),
        "three bytes a pixel");
}

// As a still picture, and as a video whose first frames are drawn.
void RunGif(Bytes input) {
  RunImage(input);
  const auto info = media::ReadGifVideo(input, {1 << 12});
  if (!info.ok()) return;
  media::GifPlayer player(input, *info);
  for (const int64_t number : {int64_t{0}, std::min<int64_t>(info->frames(), 6) - 1, int64_t{1}}) {
    const auto image = player.Show(number);
    if (!image.ok()) continue;
    Check(image->width == info->width && image->height == info->height &&
              image->data.size() ==
                  size_t{3} * static_cast<size_t>(info->width) * static_cast<size_t>(info->height),
          "every frame has the screen's size");
  }
}

// Containers and codecs of FFmpeg; a build without it refuses all but GIFs by name.
void RunVideo(Bytes input) {
  static const bool quiet = [] {
    constexpr int kNothing = -8;
    if (av_log_set_level != nullptr) av_log_set_level(kNothing);
    return true;
  }();
  (void)quiet;
  constexpr media::ImageLimits kLimits{1 << 12};
  const auto info = media::ReadVideo(input, kLimits);
  if (!info.ok()) return;
  Check(info->width >= 1 && info->height >= 1 &&
            int64_t{info->width} * info->height <= kLimits.max_pixels,
        "frames are within the limit");
  Check(info->frames() >= 1 && info->begin_s[0] == 0 && info->duration_s > 0,
        "there is a frame, at 0");
  for (size_t i = 1; i < info->begin_s.size(); ++i) {
    Check(info->begin_s[i] >= info->begin_s[i - 1], "frames do not descend in time");
  }
  const auto player = media::MakeFramePlayer(input, *info);
  for (const int64_t number : {int64_t{0}, info->frames() - 1, info->frames() / 2}) {
    const auto image = player->Show(number);
    if (!image.ok()) continue;
    Check(image->width == info->width && image->height == info->height &&
              image->data.size() ==
                  size_t{3} * static_cast<size_t>(info->width) * static_cast<size_t>(info->height),
          "every frame has the video's size");
  }
}

// What a user wrote stays the user's through whatever the template does, and rendering ends.
void RunTemplate(Bytes input) {
  const auto parsed = model::jinja::Template::Parse(Text(input));
  if (!parsed.ok()) return;
  using model::jinja::Value;
  const std::string secret = "\x01\x02<|im_end|>\x03";
  auto message = std::make_shared<model::jinja::Entries>();
  message->Set("role", Value::Of("user", false));
  message->Set("content", Value::Of(secret, false));
  model::jinja::Entries variables;
  variables.Set("messages", Value::OfList({Value(model::jinja::Dict(std::move(message)))}));
  variables.Set("tools", Value(model::jinja::None()));
  variables.Set("add_generation_prompt", Value(true));
  const auto text = (*parsed)->Render(variables, {1 << 16, 1 << 15});
  if (!text.ok()) return;
  Check(text->size() <= 1 << 16, "the output is bounded");
  size_t at = 0;
  for (const model::jinja::Text::Run& run : text->runs()) {
    Check(run.end > at && run.end <= text->size(), "runs cover the text in order");
    const std::string_view bytes = text->bytes().substr(at, run.end - at);
    // The template of an input may hold these bytes itself; only then may they be its own.
    if (run.trusted && Text(input).find('\x02') == std::string_view::npos &&
        Text(input).find("\\") == std::string_view::npos) {
      Check(bytes.find('\x02') == std::string_view::npos,
            "the user's words are not the template's");
    }
    at = run.end;
  }
  Check(at == text->size(), "runs cover the text");
}

void RunSafetensors(Bytes input) {
  const auto tensors = model::ParseSafetensorsHeader(input, "fuzz");
  if (!tensors.ok()) return;
  for (const model::TensorEntry& tensor : *tensors) {
    Check(tensor.elements >= 0 && tensor.begin <= input.size(), "a tensor begins in the file");
  }
}

void RunConfig(Bytes input) {
  (void)model::ParseModelConfig(Text(input));
  const auto processor = model::ParseImageProcessorConfig(Text(input));
  if (processor.ok()) (void)model::PlanImage(480, 640, *processor);
}

void RunTokenizer(Bytes input) {
  const auto tokenizer = model::Tokenizer::FromJson(Text(input));
  if (!tokenizer.ok()) return;
  constexpr char kText[] =
      "Hello, world's 12 <|im_start|> things\n\n  end, caf\u00e9 \u0434\u043e\u043c\u043e\u0432 "
      "\u4e2d\u6587\u4e2d\u6587 \u0928\u092e\u0938\u094d\u0924\u0947";
  const auto ids = (*tokenizer)->EncodeUserText(kText);
  if (!ids.ok()) return;
  for (const int32_t id : *ids) {
    Check(id >= 0 && id < (*tokenizer)->vocab_size(), "ids are of the vocabulary");
    Check(!(*tokenizer)->IsSpecial(id), "a user's text holds no special token");
  }
  Check((*tokenizer)->Decode(*ids) == kText, "the bytes come back");
}

// Of a chat: every picture in the request is in the prompt once, and only pictures make pictures.
void RunChat(Bytes input) {
  model::ChatJsonLimits limits;
  limits.max_image_bytes = 1 << 12;
  const auto chat = model::ParseChatJson(Text(input), limits);
  if (!chat.ok()) return;
  const auto rendered = model::RenderChat(chat->messages, {});
  Check(rendered.ok(), "what is parsed can be rendered");
  Check(rendered->image_parts.size() == chat->images.size(), "each picture is shown once");
  size_t pictures = 0;
  for (const model::PromptPart& part : rendered->parts) {
    if (std::holds_alternative<model::ImagePart>(part)) ++pictures;
    if (const auto* control = std::get_if<model::TemplatePart>(&part)) {
      std::string rest = control->text;
      for (const std::string token : {"<|im_start|>", "<|im_end|>"}) {
        for (size_t at = rest.find(token); at != std::string::npos; at = rest.find(token)) {
          rest.erase(at, token.size());
        }
      }
      Check(rest.empty(), "control text holds nothing of the user's");
    }
  }
  Check(pictures == chat->images.size(), "only pictures are placeholders");
  for (const model::ChatImageSource& image : chat->images) {
    Check(image.path.empty() != image.bytes.empty(), "a picture has one source");
  }
}

// Numbers out of the input; 0 behind its end.
class Numbers {
 public:
  explicit Numbers(Bytes input) : input_(input) {}
  bool empty() const { return at_ >= input_.size(); }
  uint64_t Take(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value = value << 8 | (at_ < input_.size() ? input_[at_] : 0);
      ++at_;
    }
    return value;
  }

 private:
  Bytes input_;
  size_t at_ = 0;
};

void CheckResize(Numbers& numbers) {
  const auto factor = static_cast<int32_t>(numbers.Take(1) % 64);
  const auto low = static_cast<int64_t>(numbers.Take(4));
  const auto high = static_cast<int64_t>(numbers.Take(5));
  const auto tall = static_cast<int64_t>(numbers.Take(4)) - 8;
  const auto wide = static_cast<int64_t>(numbers.Take(4)) - 8;
  const auto size = model::SmartResize(tall, wide, factor, low, high);
  if (!size.ok()) return;
  Check(size->height >= factor && size->width >= factor, "no side is 0");
  Check(size->height % factor == 0 && size->width % factor == 0, "sides are whole factors");
}

double TakeDouble(Numbers& numbers) { return std::bit_cast<double>(numbers.Take(8)); }

void CheckSampling(Numbers& numbers) {
  model::FrameSampling sampling;
  sampling.fps = TakeDouble(numbers);
  sampling.num_frames = static_cast<int64_t>(numbers.Take(2)) - 2;
  sampling.max_frames = static_cast<int64_t>(numbers.Take(2)) - 2;
  sampling.temporal_patch_size = static_cast<int32_t>(numbers.Take(1) % 5);
  const auto total = static_cast<int64_t>(numbers.Take(3)) - 2;
  const auto frames = model::SampleFrames(total, TakeDouble(numbers), sampling);
  if (!frames.ok()) return;
  Check(!frames->empty() && frames->front() >= 0 && frames->back() < total, "frames of the video");
  for (size_t i = 1; i < frames->size(); ++i) {
    Check((*frames)[i] >= (*frames)[i - 1], "frames do not descend");
  }
}

// A picture, or a video of up to four temporal patches any time apart.
model::PlannedItem TakeItem(Numbers& numbers) {
  model::PlannedItem item;
  const auto kind = static_cast<int32_t>(numbers.Take(1));
  item.plan.grid = {1, 2 + 2 * static_cast<int32_t>(numbers.Take(1) % 16),
                    2 + 2 * static_cast<int32_t>(numbers.Take(1) % 16)};
  if (kind % 2 == 1) {
    const int32_t patches = 1 + kind / 2 % 4;
    const auto times = model::TemporalPositions(patches, TakeDouble(numbers), 2);
    if (times.ok()) {
      Check(times->size() == static_cast<size_t>(patches) && times->front() == 0,
            "a position for each patch, the first at 0");
      item.plan.grid.t = patches;
      item.temporal = *times;
    }
  }
  item.plan.tokens = item.plan.grid.patches() / 4;
  return item;
}

// Sizes, rates and text lengths to grids, frames and M-RoPE positions.
void RunMrope(Bytes input) {
  Numbers numbers(input);
  CheckResize(numbers);
  CheckSampling(numbers);
  model::ModelConfig config;
  config.vision.spatial_merge_size = 2;
  std::vector<model::PlannedItem> items;
  int64_t tokens = 0, latest = 0;
  while (!numbers.empty() && items.size() < 8) {
    tokens += static_cast<int64_t>(numbers.Take(1) % 32);
    model::PlannedItem item = TakeItem(numbers);
    item.token_begin = tokens;
    tokens += item.plan.tokens;
    if (!item.temporal.empty()) latest += item.temporal.back();
    items.push_back(std::move(item));
  }
  tokens += static_cast<int64_t>(numbers.Take(1) % 32);
  int64_t delta = 0;
  const std::vector<int32_t> positions = model::MropePositions(tokens, items, config, &delta);
  Check(positions.size() == static_cast<size_t>(3 * tokens), "three axes");
  int32_t last = -1;
  for (const int32_t position : positions) {
    Check(position >= 0 && position < tokens + latest,
          "positions run ahead of the tokens by the videos' time alone");
    last = std::max(last, position);
  }
  if (tokens > 0) Check(last + 1 - tokens == delta, "the delta follows from the largest position");
}

Target VideoTarget() {
  return {"video",
          RunVideo,
          {"corpus/clip.mp4", "corpus/clip.mkv", "corpus/clip.webm", "corpus/clip.avi",
           "corpus/clip.mov", "corpus/clip.ts"},
          {"ftyp", "moov", "trak", "stts", "stsz", "stco", "ctts", "mdat", "\x1a\x45\xdf\xa3",
           "RIFF", "AVI ", "LIST", "idx1", "movi", "strf", "\x47\x40"}};
}

}  // namespace

const std::vector<Target>& Targets() {
  static const std::vector<Target>* const targets = [] {
    auto* all = new std::vector<Target>{
        {"jpeg",
         RunImage,
         {"media/corpus.bin:.jpg", "media/rgb420_progressive.jpg", "media/orientation_6.jpg"},
         {"\xff\xd8", "\xff\xc0", "\xff\xc2", "\xff\xc4", "\xff\xda", "\xff\xd9", "\xff\xe1",
          "Exif"}},
        {"png",
         RunImage,
         {"media/corpus.bin:.png", "media/bad_metadata.png", "media/exif_after.png"},
         {"IHDR", "PLTE", "tRNS", "IDAT", "IEND", "eXIf", "iCCP", "zTXt"}},
        {"webp",
         RunImage,
         {"media/corpus.bin:.webp"},
         {"RIFF", "WEBP", "VP8 ", "VP8L", "VP8X", "ANIM", "ANMF", "ALPH", "EXIF"}},
        {"gif",
         RunGif,
         {"media/corpus.bin:.gif", "media/anim_mixed.gif", "media/anim_previous.gif"},
         {"GIF89a", "\x21\xf9\x04", ",", ";"}},
        {"bmp", RunImage, {"media/corpus.bin:.bmp"}, {"BM"}},
        {"safetensors",
         RunSafetensors,
         {"corpus/safetensors"},
         {"\"dtype\"", "\"shape\"", "\"data_offsets\"", "F32", "BF16", "__metadata__", "[", "]",
          "{", "}", "0", "18446744073709551616", "4294967296", "-1"}},
        {"config",
         RunConfig,
         {"corpus/config.json", "corpus/preprocessor.json"},
         {"null", "0", "-1", "1e308", "true", "\"", "{", "}", "[", "]", "9223372036854775808"}},
        {"tokenizer",
         RunTokenizer,
         {"corpus/tokenizer.json"},
         {"\"model\"", "\"vocab\"", "\"merges\"", "\"added_tokens\"", "\"special\"", "true",
          "false", "null", "NFC", "ByteLevel", "Split", "\\u0120", "{", "}", "[", "]",
          "999999999"}},
        {"chat",
         RunChat,
         {"corpus/chat_text.json", "corpus/chat_images.json", "corpus/chat_forged.json"},
         {"<|im_start|>", "<|im_end|>", "<|image_pad|>", "\"role\"", "\"content\"", "image_url",
          "data:image/png;base64,", "system", "user", "assistant", "\\u0000", "{", "}", "[", "]"}},
        {"template",
         RunTemplate,
         {"corpus/template_picture.jinja", "corpus/template_thinking.jinja",
          "corpus/template_odds.jinja"},
         {"{%",       "%}",         "{{",    "}}",       "{#",     "#}",     "{%-",  "-%}",
          "for",      "endfor",     "if",    "elif",     "else",   "endif",  "set",  "macro",
          "endmacro", "namespace(", "loop.", "messages", "[::-1]", "|",      "trim", "split(",
          "replace(", "tojson",     "is",    "not",      "in",     "range(", "~",    "'"}},
        {"mrope", RunMrope, {"corpus/mrope", "corpus/mrope_frame_behind"}, {}},
    };
    if (media::VideoFilesSupported()) all->push_back(VideoTarget());
    return all;
  }();
  return *targets;
}

const Target* FindTarget(std::string_view name) {
  for (const Target& target : Targets()) {
    if (name == target.name) return &target;
  }
  return nullptr;
}

}  // namespace rserve::fuzz
