#include "kernel/data/byte_source.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "tessera/device/descriptor.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

constexpr std::size_t kPackedBytes = std::size_t{1} << 18;

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const InputFile& file)
      : name_(file.shown), file_(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!file_) fail_config("input: cannot open {}: {}", written_path(name_), SystemError());
    ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  std::size_t read(std::span<char> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      const ssize_t count = ::read(file_.get(), to.data() + done, to.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot read {}: {}", written_path(name_), SystemError());
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

 private:
  std::string name_;
  Descriptor file_;
};

// What both formats share: packed bytes in, unpacked ones out, and a file that may hold several
// packed streams one after the other.
class PackedSource : public ByteSource {
 public:
  explicit PackedSource(const InputFile& file)
      : name_(file.shown), plain_(file), packed_(kPackedBytes) {}

  std::size_t read(std::span<char> to) final {
    std::size_t done = 0;
    while (done < to.size()) {
      if (at_ == size_ && !ended_) {
        at_ = 0;
        size_ = plain_.read(packed_);
        ended_ = size_ < packed_.size();
      }
      if (at_ == size_ && !within_) break;
      const std::size_t before = at_;
      const std::size_t made = unpack(to.subspan(done));
      done += made;
      if (made == 0 && at_ == before && within_) {
        if (at_ < size_) damaged("it goes on without an end");
        fail("{} ends in the middle of its packed data", written_path(name_));
      }
    }
    return done;
  }

 protected:
  // Takes from packed(), says how much by took(), returns how much it wrote, sets within().
  virtual std::size_t unpack(std::span<char> to) = 0;
  std::span<char> packed() { return std::span(packed_).subspan(at_, size_ - at_); }
  void took(std::size_t bytes) { at_ += bytes; }
  void within(bool stream) { within_ = stream; }
  [[noreturn]] void damaged(std::string_view why) const {
    fail("{} is damaged: {}", written_path(name_), why);
  }

 private:
  std::string name_;
  PlainSource plain_;
  std::vector<char> packed_;
  std::size_t at_ = 0, size_ = 0;
  bool ended_ = false;  // the file has no more than packed()
  bool within_ = true;  // there has to be more: a file has one packed stream at least
};

class GzipSource final : public PackedSource {
 public:
  explicit GzipSource(const InputFile& file) : PackedSource(file) {
    constexpr int kGzipOnly = 16;
    require(::inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK, "no memory for zlib");
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

 private:
  std::size_t unpack(std::span<char> to) override {
    const std::span<char> from = packed();
    stream_.next_in = reinterpret_cast<Bytef*>(from.data());
    stream_.avail_in = static_cast<uInt>(from.size());
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(to.size(), 1U << 30));
    const uInt room = stream_.avail_out;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    took(from.size() - stream_.avail_in);
    if (result == Z_STREAM_END) {
      within(false);
      ::inflateReset(&stream_);
    } else if (result == Z_OK || result == Z_BUF_ERROR) {
      within(true);
    } else {
      damaged(stream_.msg != nullptr ? stream_.msg : "it is no gzip");
    }
    return room - stream_.avail_out;
  }

  z_stream stream_{};
};

class ZstdSource final : public PackedSource {
 public:
  explicit ZstdSource(const InputFile& file) : PackedSource(file), stream_(::ZSTD_createDStream()) {
    require(stream_ != nullptr, "no memory for zstd");
  }
  ~ZstdSource() override { ::ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

 private:
  std::size_t unpack(std::span<char> to) override {
    const std::span<char> from = packed();
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    const std::size_t left = ::ZSTD_decompressStream(stream_, &out, &in);
    took(in.pos);
    if (::ZSTD_isError(left) != 0) damaged(::ZSTD_getErrorName(left));
    within(left != 0);
    return out.pos;
  }

  ZSTD_DStream* stream_;
};

}  // namespace

std::unique_ptr<ByteSource> ByteSource::open(const InputFile& file) {
  switch (file.packing) {
    case InputFile::Packing::gzip:
      return std::make_unique<GzipSource>(file);
    case InputFile::Packing::zstd:
      return std::make_unique<ZstdSource>(file);
    case InputFile::Packing::none:
      break;
  }
  return std::make_unique<PlainSource>(file);
}

}  // namespace tessera
