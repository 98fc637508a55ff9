// From files and texts on the command line to requests.

#ifndef RSERVE_TOOLS_RSERVE_REQUESTS_H_
#define RSERVE_TOOLS_RSERVE_REQUESTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/model_engine.h"
#include "src/model/model_folder.h"
#include "src/model/spec/chat_template.h"
#include "tools/rserve/options.h"

namespace rserve::tool {

// Frames that were given as picture files, decoded: RGB8, all of one size.
struct FrameList {
  int32_t width = 0, height = 0, count = 0;
  double fps = 0;
};

// The parts of a rendered chat and the picture files behind them, which every picture part borrows.
struct LoadedChat {
  model::RenderedChat chat;
  std::vector<std::shared_ptr<const std::vector<uint8_t>>> files;  // in prompt order
  std::vector<std::string> names;                                  // of the files, for messages
  std::vector<bool> videos;                                        // which of the files are videos
  std::vector<FrameList> frames;  // by file; with a count where the file is pixels of frames
};

// One user turn: the pictures, the videos, the video of the frames, then the question.
// `number_pictures` puts "Picture N: " before each picture (the chat template's add_vision_id).
// `spec` is the model that is asked, with or without its weights: its chat template is written.
absl::StatusOr<LoadedChat> LoadQuestion(absl::Span<const std::string> picture_files,
                                        const std::string& question, bool number_pictures,
                                        const model::ModelFolder& spec,
                                        absl::Span<const std::string> video_files = {},
                                        absl::Span<const std::string> frame_files = {},
                                        double fps = 0);

// The same as a request. The files are borrowed: `loaded` must outlive the request's terminal
// event.
ModelRequest ToRequest(const LoadedChat& loaded);

// Says which file a message that begins with "picture 2" is about; the engine knows numbers only.
absl::Status NameFile(const absl::Status& status, const LoadedChat& loaded);

// The options --image, --prompt, --chat and --number-pictures of `run` and `inspect`.
struct PromptFlags {
  std::vector<std::string> images;
  // `run` only.
  std::vector<std::string> videos;
  std::vector<std::string> frames;  // picture files that are a video's frames, behind the videos
  double fps = 0;                   // of these
  std::string prompt;
  std::string chat;
  std::string number_pictures = "auto";  // "on", "off"; auto: with two pictures or more

  bool given() const {
    return !images.empty() || !videos.empty() || !frames.empty() || !prompt.empty() ||
           !chat.empty();
  }
};
void AddPromptFlags(OptionTable* table, PromptFlags* flags);

// INVALID_ARGUMENT when the options contradict each other or ask for nothing.
absl::Status CheckPromptFlags(const PromptFlags& flags);
// Reads the files. A --chat file holds OpenAI-style messages (see src/model/spec/chat_json.h);
// picture paths in it are relative to its folder.
absl::StatusOr<LoadedChat> LoadPrompt(const PromptFlags& flags, const model::ModelFolder& spec);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_REQUESTS_H_
