#include "src/media/ffmpeg_video.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/media/exif.h"
#include "src/media/oriented_writer.h"

namespace rserve::media {

namespace {

using Bytes = absl::Span<const uint8_t>;

// What files that people have are in. Lists of files and streams of the network are not among them.
constexpr char kFormats[] = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ogg,asf,ivf";
constexpr int64_t kNowhere = INT64_MIN;
constexpr int kBufferBytes = 1 << 15;
// Reading a file's structure takes its bytes about once, and again for an index at its end.
constexpr int64_t kReadFactor = 8;
constexpr int64_t kReadSlack = int64_t{1} << 24;

std::string ErrorText(int error) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(error, text, sizeof(text));
  return text;
}

absl::Status Damaged(const char* what, int error) {
  return absl::InvalidArgumentError(absl::StrCat("damaged video: ", what, ": ", ErrorText(error)));
}

template <auto free_function>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free_function(&object);
  }
};
using CodecPtr = std::unique_ptr<AVCodecContext, Free<avcodec_free_context>>;
using FramePtr = std::unique_ptr<AVFrame, Free<av_frame_free>>;
using PacketPtr = std::unique_ptr<AVPacket, Free<av_packet_free>>;
struct FreeScaler {
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};

// An open container over bytes in memory.
class Container {
 public:
  // `read_bound`: bytes that may be read of it until it is closed.
  static absl::StatusOr<std::unique_ptr<Container>> Open(Bytes bytes, int64_t read_bound) {
    auto container = std::unique_ptr<Container>(new Container(bytes, read_bound));
    if (absl::Status status = container->Init(); !status.ok()) return status;
    return container;
  }
  ~Container() {
    if (format_ != nullptr) avformat_close_input(&format_);
    if (io_ != nullptr) av_freep(&io_->buffer);
    avio_context_free(&io_);
  }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  AVFormatContext* format() const { return format_; }
  AVStream* stream() const { return format_->streams[stream_]; }

  // The video's next packet; false at the end. A file that is cut off ends there.
  absl::StatusOr<bool> NextPacket(AVPacket* packet) {
    for (;;) {
      av_packet_unref(packet);
      const int error = av_read_frame(format_, packet);
      if (error == AVERROR_EOF) return false;
      if (exhausted_) return TooMuch();
      if (error < 0) return Damaged("a packet", error);
      if (packet->stream_index == stream_) return true;
    }
  }
  absl::Status TooMuch() const {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a video file of ", bytes_.size(), " bytes makes its reader read more than ", read_bound_));
  }
  bool exhausted() const { return exhausted_; }
  void SetReadBound(int64_t bytes) { read_ = 0, read_bound_ = bytes; }

 private:
  Container(Bytes bytes, int64_t read_bound) : bytes_(bytes), read_bound_(read_bound) {}

  absl::Status Init() {
    auto* buffer = static_cast<uint8_t*>(av_malloc(kBufferBytes));
    if (buffer == nullptr) return absl::ResourceExhaustedError("no memory to read a video");
    io_ = avio_alloc_context(buffer, kBufferBytes, 0, this, &Container::Read, nullptr,
                             &Container::Seek);
    format_ = avformat_alloc_context();
    if (io_ == nullptr || format_ == nullptr) {
      if (io_ == nullptr) av_free(buffer);
      return absl::ResourceExhaustedError("no memory to read a video");
    }
    format_->pb = io_;
    format_->flags |= AVFMT_FLAG_CUSTOM_IO;
    format_->format_whitelist = av_strdup(kFormats);
    format_->protocol_whitelist = av_strdup("none");
    const int opened = avformat_open_input(&format_, nullptr, nullptr, nullptr);
    if (exhausted_) return TooMuch();
    if (opened < 0) {
      return absl::InvalidArgumentError(absl::StrCat("no GIF, and no video file that can be read (",
                                                     bytes_.size(),
                                                     " bytes): ", ErrorText(opened)));
    }
    stream_ = FindStream();
    if (stream_ < 0 || NeedsProbe(*stream())) {
      const int probed = avformat_find_stream_info(format_, nullptr);
      if (exhausted_) return TooMuch();
      if (probed < 0) return Damaged("its streams", probed);
      stream_ = FindStream();
    }
    if (stream_ < 0) return absl::InvalidArgumentError("the file holds no video");
    for (unsigned i = 0; i < format_->nb_streams; ++i) {
      if (static_cast<int>(i) != stream_) format_->streams[i]->discard = AVDISCARD_ALL;
    }
    return absl::OkStatus();
  }

  int FindStream() const {
    return av_find_best_stream(format_, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  }
  static bool NeedsProbe(const AVStream& stream) {
    return stream.codecpar->width <= 0 || stream.codecpar->height <= 0 ||
           stream.codecpar->codec_id == AV_CODEC_ID_NONE;
  }

  static int Read(void* opaque, uint8_t* to, int size) {
    auto& self = *static_cast<Container*>(opaque);
    const int64_t left = static_cast<int64_t>(self.bytes_.size()) - self.at_;
    if (left <= 0) return AVERROR_EOF;
    const int64_t count = std::min<int64_t>(left, size);
    if (count > self.read_bound_ - self.read_) {
      self.exhausted_ = true;
      return AVERROR_EXIT;
    }
    std::memcpy(to, self.bytes_.data() + self.at_, static_cast<size_t>(count));
    self.at_ += count;
    self.read_ += count;
    return static_cast<int>(count);
  }
  static int64_t Seek(void* opaque, int64_t offset, int whence) {
    auto& self = *static_cast<Container*>(opaque);
    const auto size = static_cast<int64_t>(self.bytes_.size());
    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE) return size;
    if (whence == SEEK_CUR) offset += self.at_;
    if (whence == SEEK_END) offset += size;
    if (offset < 0 || offset > size) return AVERROR(EINVAL);
    return self.at_ = offset;
  }

  const Bytes bytes_;
  int64_t read_bound_;
  int64_t at_ = 0;
  int64_t read_ = 0;
  bool exhausted_ = false;
  AVIOContext* io_ = nullptr;
  AVFormatContext* format_ = nullptr;
  int stream_ = -1;
};

int64_t ReadBound(Bytes bytes) {
  return kReadFactor * static_cast<int64_t>(bytes.size()) + kReadSlack;
}

// Turns by quarters only, as cameras write them.
int32_t Orientation(const AVStream& stream) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
  const AVPacketSideData* side =
      av_packet_side_data_get(stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data,
                              AV_PKT_DATA_DISPLAYMATRIX);
  const uint8_t* data = side == nullptr ? nullptr : side->data;
#else
  const uint8_t* data = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr);
#endif
  const auto* matrix = reinterpret_cast<const int32_t*>(data);
  if (matrix == nullptr) return 1;
  const double degrees = av_display_rotation_get(matrix);  // counterclockwise
  if (std::isnan(degrees)) return 1;
  const auto quarters = static_cast<int>(std::lround(degrees / 90)) & 3;
  constexpr int32_t kTurns[4] = {1, 8, 3, 6};
  return kTurns[quarters];
}

absl::Status CheckSize(int64_t width, int64_t height, int64_t max_pixels) {
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("damaged video: frames of ", width, "x", height, " pixels"));
  }
  if (width > max_pixels / height) {
    return absl::ResourceExhaustedError(absl::StrCat("a video of ", width, "x", height,
                                                     " pixels a frame, at most ", max_pixels,
                                                     " are taken (option max_image_pixels)"));
  }
  return absl::OkStatus();
}

// A packet's time; where a container tells none for frames that are decoded out of order, the time
// of decoding has the same order as the frames.
int64_t TimeOf(const AVPacket& packet) {
  return packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
}

class FfmpegPlayer final : public FramePlayer {
 public:
  FfmpegPlayer(Bytes bytes, const VideoInfo& info) : bytes_(bytes), info_(info) {}

  absl::StatusOr<RgbImage> Show(int64_t number) override {
    if (number < 0 || number >= info_.frames()) {
      return absl::InvalidArgumentError(absl::StrCat("the video has ", info_.frames(), " frames"));
    }
    const int64_t time = info_.times[static_cast<size_t>(number)];
    absl::Status status = GoTo(time);
    // A container whose index leads astray is read from its beginning.
    if (!status.ok() && entered_ && !exhausted()) {
      container_.reset();
      entries_usable_ = false;
      status = GoTo(time);
    }
    if (!status.ok()) {
      container_.reset();
      return status;
    }
    return Convert();
  }

 private:
  bool exhausted() const { return container_ != nullptr && container_->exhausted(); }

  absl::Status Open() {
    codec_.reset();
    entered_ = false;
    entry_ = time_ = kNowhere;
    auto container = Container::Open(bytes_, ReadBound(bytes_));
    if (!container.ok()) return container.status();
    container_ = *std::move(container);
    const AVCodecParameters& parameters = *container_->stream()->codecpar;
    const AVCodec* codec = avcodec_find_decoder(parameters.codec_id);
    if (codec == nullptr) return absl::UnimplementedError("no decoder");
    codec_.reset(avcodec_alloc_context3(codec));
    frame_.reset(av_frame_alloc());
    packet_.reset(av_packet_alloc());
    if (codec_ == nullptr || frame_ == nullptr || packet_ == nullptr) {
      return absl::ResourceExhaustedError("no memory to decode a video");
    }
    int error = avcodec_parameters_to_context(codec_.get(), &parameters);
    if (error < 0) return Damaged("its parameters", error);
    codec_->pkt_timebase = container_->stream()->time_base;
    codec_->log_level_offset = AV_LOG_TRACE;  // errors are told once, by us
    codec_->thread_count = 1;                 // the caller's threads are its own matter
    codec_->max_pixels = 2 * int64_t{info_.width} * info_.height + (1 << 16);  // and its padding
    codec_->err_recognition |= AV_EF_EXPLODE;
    error = avcodec_open2(codec_.get(), codec, nullptr);
    if (error < 0) return Damaged("its codec", error);
    return absl::OkStatus();
  }

  // Decodes up to the frame of this time.
  absl::Status GoTo(int64_t time) {
    if (container_ != nullptr && time_ == time) return absl::OkStatus();
    if (container_ == nullptr || time < time_) {
      if (absl::Status status = Open(); !status.ok()) return status;
    }
    // From one call to the next it may be read once more.
    container_->SetReadBound(ReadBound(bytes_));
    if (entries_usable_) Enter(time);
    for (;;) {
      absl::StatusOr<bool> more = NextFrame();
      if (!more.ok()) return more.status();
      if (!*more || time_ > time) {
        return absl::InvalidArgumentError("damaged video: the frame is not where its packet was");
      }
      if (time_ == time) return absl::OkStatus();
    }
  }

  // Skips what need not be decoded.
  void Enter(int64_t time) {
    const auto after = std::upper_bound(info_.entry_times.begin(), info_.entry_times.end(), time);
    if (after == info_.entry_times.begin()) return;
    const int64_t entry = *(after - 1);
    if (entry <= time_ || entry == info_.times.front()) return;
    if (av_seek_frame(container_->format(), container_->stream()->index, entry,
                      AVSEEK_FLAG_BACKWARD) < 0) {
      return;
    }
    avcodec_flush_buffers(codec_.get());
    entered_ = true;
    entry_ = entry;
  }

  absl::StatusOr<bool> NextFrame() {
    for (;;) {
      const int received = avcodec_receive_frame(codec_.get(), frame_.get());
      if (received == AVERROR_EOF) return false;
      if (received >= 0) {
        if ((frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame_->decode_error_flags != 0) {
          return absl::InvalidArgumentError("damaged video: a frame is corrupt");
        }
        time_ = frame_->pts != AV_NOPTS_VALUE ? frame_->pts : frame_->best_effort_timestamp;
        return true;
      }
      if (received != AVERROR(EAGAIN)) return Damaged("a frame", received);
      absl::StatusOr<bool> more = container_->NextPacket(packet_.get());
      if (!more.ok()) return more.status();
      if (*more && entry_ != kNowhere) {
        // Where an index is a guess the first packets may refer to frames that were not decoded.
        if ((packet_->flags & AV_PKT_FLAG_KEY) == 0) continue;
        if (TimeOf(*packet_) != entry_) {
          return absl::InvalidArgumentError("damaged video: its index leads astray");
        }
        entry_ = kNowhere;
      }
      const int sent = avcodec_send_packet(codec_.get(), *more ? packet_.get() : nullptr);
      if (sent < 0) return Damaged("a frame", sent);
    }
  }

  absl::StatusOr<RgbImage> Convert() {
    const bool swapped = OrientationSwapsSides(info_.orientation);
    const int32_t width = swapped ? info_.height : info_.width;
    const int32_t height = swapped ? info_.width : info_.height;
    if (frame_->width != width || frame_->height != height) {
      return absl::InvalidArgumentError(absl::StrCat("damaged video: a frame of ", frame_->width,
                                                     "x", frame_->height, " pixels in a video of ",
                                                     width, "x", height));
    }
    const auto format = static_cast<AVPixelFormat>(frame_->format);
    scaler_.reset(sws_getCachedContext(
        scaler_.release(), width, height, format, width, height, AV_PIX_FMT_RGB24,
        SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT, nullptr, nullptr,
        nullptr));
    if (scaler_ == nullptr) {
      const char* name = av_get_pix_fmt_name(format);
      return absl::UnimplementedError(
          absl::StrCat("video pixels of format ", name == nullptr ? "unknown" : name));
    }
    SetColours();
    // Rows are written a little beyond their end.
    const int stride = (width * 3 + 63) / 64 * 64 + 64;
    rgb_.resize(static_cast<size_t>(stride) * static_cast<size_t>(height));
    uint8_t* const planes[4] = {rgb_.data(), nullptr, nullptr, nullptr};
    const int strides[4] = {stride, 0, 0, 0};
    const int rows =
        sws_scale(scaler_.get(), frame_->data, frame_->linesize, 0, height, planes, strides);
    if (rows != height) return absl::InternalError("a video frame was not converted");
    RgbImage image;
    OrientedWriter writer(image, width, height, info_.orientation);
    for (int32_t y = 0; y < height; ++y) {
      writer.Write(y, 1, rgb_.data() + static_cast<int64_t>(y) * stride);
    }
    return image;
  }

  void SetColours() {
    // What is not said is BT.601 up to 576 lines and BT.709 above, as players take it.
    int space = frame_->colorspace;
    if (space == AVCOL_SPC_UNSPECIFIED) {
      space = frame_->height > 576 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
    }
    const int full = frame_->color_range == AVCOL_RANGE_JPEG ? 1 : 0;
    sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(space), full,
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  }

  const Bytes bytes_;
  const VideoInfo info_;
  std::unique_ptr<Container> container_;
  CodecPtr codec_;
  FramePtr frame_;
  PacketPtr packet_;
  std::unique_ptr<SwsContext, FreeScaler> scaler_;
  std::vector<uint8_t> rgb_;
  int64_t time_ = kNowhere;   // of the frame that is decoded
  bool entered_ = false;      // not at the beginning, since it was opened
  int64_t entry_ = kNowhere;  // the packet of this time must come first
  bool entries_usable_ = true;
};

}  // namespace

bool VideoFilesSupported() { return true; }

absl::StatusOr<VideoInfo> ReadFfmpegVideo(Bytes bytes, const ImageLimits& limits) {
  auto opened = Container::Open(bytes, ReadBound(bytes));
  if (!opened.ok()) return opened.status();
  Container& container = **opened;
  const AVStream& stream = *container.stream();
  const AVCodecParameters& parameters = *stream.codecpar;
  if (avcodec_find_decoder(parameters.codec_id) == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("no decoder for videos of codec ", avcodec_get_name(parameters.codec_id)));
  }
  if (absl::Status s = CheckSize(parameters.width, parameters.height, limits.max_pixels); !s.ok()) {
    return s;
  }
  VideoInfo info;
  info.orientation = Orientation(stream);
  info.width = parameters.width;
  info.height = parameters.height;
  if (OrientationSwapsSides(info.orientation)) std::swap(info.width, info.height);

  const PacketPtr packet(av_packet_alloc());
  if (packet == nullptr) return absl::ResourceExhaustedError("no memory to read a video");
  int64_t last_ticks = 0;
  for (;;) {
    absl::StatusOr<bool> more = container.NextPacket(packet.get());
    if (!more.ok()) return more.status();
    if (!*more) break;
    if ((packet->flags & AV_PKT_FLAG_DISCARD) != 0) continue;  // cut away by the container
    if (info.times.size() == static_cast<size_t>(kMaxVideoFrames)) {
      return absl::ResourceExhaustedError(absl::StrCat("a video of more than ", kMaxVideoFrames,
                                                       " frames, which is all that are taken"));
    }
    const int64_t time = TimeOf(*packet);
    if (time == AV_NOPTS_VALUE) {
      return absl::InvalidArgumentError(
          absl::StrCat("frame ", info.times.size(), " of the video has no time"));
    }
    info.times.push_back(time);
    if ((packet->flags & AV_PKT_FLAG_KEY) != 0) info.entry_times.push_back(time);
    last_ticks = std::max<int64_t>(packet->duration, 0);
  }
  if (info.times.empty()) return absl::InvalidArgumentError("damaged video: it holds no frame");
  std::sort(info.times.begin(), info.times.end());
  info.times.erase(std::unique(info.times.begin(), info.times.end()), info.times.end());
  std::sort(info.entry_times.begin(), info.entry_times.end());
  const double tick = av_q2d(stream.time_base);
  const int64_t first = info.times.front();
  for (const int64_t time : info.times) {
    // The difference of two far times may exceed 64 bits.
    info.begin_s.push_back((static_cast<double>(time) - static_cast<double>(first)) * tick);
  }
  const int64_t frames = info.frames();
  double last_s = static_cast<double>(last_ticks) * tick;
  // Without a duration the last frame is shown as long as the mean of the others.
  if (last_ticks == 0)
    last_s = frames > 1 ? info.begin_s.back() / static_cast<double>(frames - 1) : 1;
  info.duration_s = info.begin_s.back() + last_s;
  if (!(info.duration_s > 0) || !std::isfinite(info.duration_s)) {
    return absl::InvalidArgumentError(
        absl::StrCat("damaged video: ", frames, " frames in ", info.duration_s, " seconds"));
  }
  return info;
}

std::unique_ptr<FramePlayer> MakeFfmpegPlayer(Bytes bytes, const VideoInfo& info) {
  return std::make_unique<FfmpegPlayer>(bytes, info);
}

}  // namespace rserve::media
