#include "tests/media/clip_maker.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>
}

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace rserve::testing {

namespace {

class Maker {
 public:
  explicit Maker(const ClipOptions& options) : options_(options) {}
  ~Maker() {
    avcodec_free_context(&codec_);
    av_frame_free(&frame_);
    av_packet_free(&packet_);
    sws_freeContext(scaler_);
    if (io_ != nullptr) av_freep(&io_->buffer);
    avio_context_free(&io_);
    avformat_free_context(format_);
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  bool Open() {
    av_log_set_level(AV_LOG_QUIET);  // hostile files are what these tests are about
    const AVCodec* codec = avcodec_find_encoder_by_name(options_.codec.c_str());
    if (codec == nullptr) return false;
    if (avformat_alloc_output_context2(&format_, nullptr, options_.container.c_str(), nullptr) <
        0) {
      return false;
    }
    codec_ = avcodec_alloc_context3(codec);
    const bool lossy = options_.codec != "ffv1";
    codec_->width = options_.width;
    codec_->height = options_.height;
    codec_->pix_fmt = lossy ? AV_PIX_FMT_YUV420P : AV_PIX_FMT_BGR0;
    codec_->time_base = {options_.ticks_in, options_.ticks};
    codec_->gop_size = options_.group;
    codec_->thread_count = 1;
    codec_->flags |= AV_CODEC_FLAG_BITEXACT;
    if (lossy) {
      if (options_.codec == "mpeg4") codec_->max_b_frames = options_.container == "avi" ? 0 : 2;
      codec_->bit_rate = 4000000;
    }
    if ((format_->oformat->flags & AVFMT_GLOBALHEADER) != 0) {
      codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    format_->flags |= AVFMT_FLAG_BITEXACT;
    if (avcodec_open2(codec_, codec, nullptr) < 0) return false;
    stream_ = avformat_new_stream(format_, nullptr);
    stream_->time_base = codec_->time_base;
    if (avcodec_parameters_from_context(stream_->codecpar, codec_) < 0) return false;
    if (options_.rotation != 0 && !Rotate()) return false;
    frame_ = av_frame_alloc();
    packet_ = av_packet_alloc();
    frame_->format = codec_->pix_fmt;
    frame_->width = options_.width;
    frame_->height = options_.height;
    if (av_frame_get_buffer(frame_, 0) < 0) return false;
    scaler_ = sws_getContext(
        options_.width, options_.height, AV_PIX_FMT_RGB24, options_.width, options_.height,
        codec_->pix_fmt, SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr, nullptr, nullptr);
    constexpr int kBufferBytes = 4096;
    auto* buffer = static_cast<uint8_t*>(av_malloc(kBufferBytes));
    io_ = avio_alloc_context(buffer, kBufferBytes, 1, this, nullptr, &Maker::Write, &Maker::Seek);
    if (scaler_ == nullptr || io_ == nullptr) return false;
    format_->pb = io_;
    return avformat_write_header(format_, nullptr) >= 0;
  }

  bool Add(const std::vector<uint8_t>& rgb, int64_t time) {
    if (av_frame_make_writable(frame_) < 0) return false;
    const uint8_t* const planes[4] = {rgb.data(), nullptr, nullptr, nullptr};
    const int strides[4] = {options_.width * 3, 0, 0, 0};
    sws_scale(scaler_, planes, strides, 0, options_.height, frame_->data, frame_->linesize);
    frame_->pts = time;
    return Encode(frame_);
  }

  std::vector<uint8_t> Finish() {
    if (!Encode(nullptr) || av_write_trailer(format_) < 0) return {};
    avio_flush(io_);
    return std::move(bytes_);
  }

 private:
  // Into memory, and back to fill in sizes: FFmpeg's own buffer in memory loses what AVI writes so.
#if LIBAVFORMAT_VERSION_MAJOR >= 61
  static int Write(void* opaque, const uint8_t* data, int size) {
#else
  static int Write(void* opaque, uint8_t* data, int size) {
#endif
    auto& self = *static_cast<Maker*>(opaque);
    const size_t end = self.at_ + static_cast<size_t>(size);
    if (self.bytes_.size() < end) self.bytes_.resize(end);
    std::memcpy(self.bytes_.data() + self.at_, data, static_cast<size_t>(size));
    self.at_ = end;
    return size;
  }
  static int64_t Seek(void* opaque, int64_t offset, int whence) {
    auto& self = *static_cast<Maker*>(opaque);
    const auto size = static_cast<int64_t>(self.bytes_.size());
    if ((whence & AVSEEK_SIZE) != 0) return size;
    if (whence == SEEK_CUR) offset += static_cast<int64_t>(self.at_);
    if (whence == SEEK_END) offset += size;
    if (offset < 0) return AVERROR(EINVAL);
    self.at_ = static_cast<size_t>(offset);
    return offset;
  }

  bool Rotate() {
    int32_t matrix[9];
    av_display_rotation_set(matrix, options_.rotation);
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
    AVPacketSideData* side = av_packet_side_data_new(&stream_->codecpar->coded_side_data,
                                                     &stream_->codecpar->nb_coded_side_data,
                                                     AV_PKT_DATA_DISPLAYMATRIX, sizeof(matrix), 0);
    uint8_t* data = side == nullptr ? nullptr : side->data;
#else
    uint8_t* data = av_stream_new_side_data(stream_, AV_PKT_DATA_DISPLAYMATRIX, sizeof(matrix));
#endif
    if (data == nullptr) return false;
    std::memcpy(data, matrix, sizeof(matrix));
    return true;
  }

  bool Encode(const AVFrame* frame) {
    if (avcodec_send_frame(codec_, frame) < 0) return false;
    for (;;) {
      const int received = avcodec_receive_packet(codec_, packet_);
      if (received == AVERROR(EAGAIN) || received == AVERROR_EOF) return true;
      if (received < 0) return false;
      if (packet_->duration == 0) packet_->duration = 1;  // without one mov cuts the last frame off
      av_packet_rescale_ts(packet_, codec_->time_base, stream_->time_base);
      packet_->stream_index = stream_->index;
      if (av_interleaved_write_frame(format_, packet_) < 0) return false;
    }
  }

  const ClipOptions options_;
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
  AVIOContext* io_ = nullptr;
  AVFormatContext* format_ = nullptr;
  AVCodecContext* codec_ = nullptr;
  AVStream* stream_ = nullptr;
  AVFrame* frame_ = nullptr;
  AVPacket* packet_ = nullptr;
  SwsContext* scaler_ = nullptr;
};

}  // namespace

std::vector<uint8_t> MakeClip(const ClipOptions& options,
                              const std::vector<std::vector<uint8_t>>& frames) {
  Maker maker(options);
  if (!maker.Open()) return {};
  for (size_t i = 0; i < frames.size(); ++i) {
    if (!maker.Add(frames[i], options.times[i])) return {};
  }
  return maker.Finish();
}

std::vector<std::vector<uint8_t>> ClipFrames(int width, int height, int count) {
  std::vector<std::vector<uint8_t>> frames;
  for (int i = 0; i < count; ++i) {
    std::vector<uint8_t>& frame = frames.emplace_back();
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        frame.push_back(static_cast<uint8_t>(40 + i * 9 + x));
        frame.push_back(static_cast<uint8_t>(200 - i * 7 - y));
        frame.push_back(static_cast<uint8_t>(60 + i * 5 + (x + y) / 2));
      }
    }
  }
  return frames;
}

}  // namespace rserve::testing
