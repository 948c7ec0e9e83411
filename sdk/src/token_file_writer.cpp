#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <type_traits>
#include <utility>

#include "sdk/src/token_layout.hpp"
#include "sdk/src/token_types.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/io/token_file.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

// A file under another name until it is whole. Many small pieces become few large writes.
class PartialFile {
 public:
  explicit PartialFile(std::filesystem::path path)
      : path_(std::move(path)), partial_(path_.string() + ".partial"), file_(partial_) {}
  ~PartialFile() {
    if (!renamed_) ::unlink(partial_.c_str());
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::string_view bytes) {
    if (waiting_.size() + bytes.size() > kWaiting) flush();
    if (bytes.size() > kWaiting) return file_.write(bytes);
    waiting_ += bytes;
  }
  template <class T>
  void write_value(T value) {
    write({reinterpret_cast<const char*>(&value), sizeof value});
  }
  /// Makes room for `bytes` more, which the caller fills.
  char* extend(std::size_t bytes) {
    if (waiting_.size() + bytes > kWaiting) flush();
    waiting_.resize(waiting_.size() + bytes);
    return waiting_.data() + waiting_.size() - bytes;
  }
  void sync() {
    flush();
    file_.sync();
  }
  void rename() {
    if (::rename(partial_.c_str(), path_.c_str()) != 0) fail_file("rename", partial_);
    renamed_ = true;
  }

 private:
  static constexpr std::size_t kWaiting = 1 << 20;
  void flush() {
    file_.write(waiting_);
    waiting_.clear();
  }

  std::filesystem::path path_, partial_;
  OutputFile file_;
  std::string waiting_;
  bool renamed_ = false;
};

void remove_old(const std::filesystem::path& file) {
  if (::unlink(file.c_str()) != 0 && errno != ENOENT) fail_file("remove", file);
}

template <class T>
bool holds(i32 id) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(static_cast<T>(id)) == static_cast<double>(id);
  } else {
    return std::in_range<T>(id);
  }
}

}  // namespace

struct TokenFileWriter::State {
  State(std::string name, TokenType of)
      : prefix(std::move(name)), type(of), data(prefix + ".bin") {}

  // Before its ids are written: what it refuses leaves nothing in the file.
  void add_sequence(i64 ids, std::optional<i32> mode) {
    if (ids > std::numeric_limits<i32>::max()) {
      fail("{}: a sequence of {} tokens; most are {}",
           written_path(prefix),
           ids,
           std::numeric_limits<i32>::max());
    }
    if (mode.has_value() == modes.empty() && !lengths.empty()) {
      fail("{}: either all sequences have a mode or none", written_path(prefix));
    }
    if (mode && !std::in_range<signed char>(*mode)) {
      fail("{}: mode {} does not fit into a byte", written_path(prefix), *mode);
    }
    if (mode) modes += static_cast<char>(*mode);
    lengths.push_back(static_cast<i32>(ids));
    tokens += ids;
  }

  std::string prefix;
  TokenType type;
  PartialFile data;
  std::vector<i32> lengths;
  std::vector<i64> bounds = {0};
  std::string modes;  // a byte each
  i64 tokens = 0;
};

TokenFileWriter::TokenFileWriter(std::string prefix, TokenType type)
    : state_(std::make_unique<State>(std::move(prefix), type)) {}
TokenFileWriter::TokenFileWriter(TokenFileWriter&&) noexcept = default;
TokenFileWriter::~TokenFileWriter() = default;

i64 TokenFileWriter::documents() const { return static_cast<i64>(state_->bounds.size()) - 1; }
i64 TokenFileWriter::tokens() const { return state_->tokens; }

void TokenFileWriter::add(std::span<const i32> ids, std::optional<i32> mode) {
  with_token_type(state_->type, [&]<class T>(T) {
    for (const i32 id : ids) {
      if (holds<T>(id)) [[likely]]
        continue;
      fail("{}: token {} does not fit into {}",  // require() would make the words for each id
           written_path(state_->prefix),
           id,
           token_type_name(state_->type));
    }
    state_->add_sequence(static_cast<i64>(ids.size()), mode);
    constexpr std::size_t kPiece = 65'536;
    for (std::span<const i32> rest = ids; !rest.empty();) {
      const auto piece = rest.first(std::min(rest.size(), kPiece));
      char* to = state_->data.extend(piece.size() * sizeof(T));
      for (std::size_t i = 0; i < piece.size(); ++i) {
        const T value = static_cast<T>(piece[i]);
        std::memcpy(to + i * sizeof(T), &value, sizeof(T));
      }
      rest = rest.subspan(piece.size());
    }
  });
}

void TokenFileWriter::end_document() {
  state_->bounds.push_back(static_cast<i64>(state_->lengths.size()));
}

void TokenFileWriter::add_documents(const TokenFile& from, i64 first, i64 end) {
  const TokenIndex& index = from.index();
  require(index.type() == state_->type,
          "{} has {}, {} has {}",
          written_path(from.prefix()),
          token_type_name(index.type()),
          written_path(state_->prefix),
          token_type_name(state_->type));
  for (i64 document = first; document < end; ++document) {
    const i64 after = index.first_sequence(document + 1);
    for (i64 i = index.first_sequence(document); i < after; ++i) {
      state_->add_sequence(index.length(i), index.mode(i));
    }
    end_document();
  }
  const i64 begin = index.document_begin(first);
  state_->data.write(from.bytes(begin, index.document_begin(end) - begin));
}

void TokenFileWriter::finish(std::string_view tokenizer, Json about) {
  using namespace token_layout;
  State& state = *state_;
  const i64 size = token_type_size(state.type);
  require(state.bounds.back() == static_cast<i64>(state.lengths.size()),
          "{}: the last {} sequences are of no document",
          written_path(state.prefix),
          static_cast<i64>(state.lengths.size()) - state.bounds.back());
  state.data.sync();

  PartialFile index(state.prefix + ".idx");
  index.write(kMagic);
  index.write_value(kVersion);
  index.write_value(static_cast<u8>(state.type));
  index.write_value(static_cast<u64>(state.lengths.size()));
  index.write_value(static_cast<u64>(state.bounds.size()));
  for (const i32 length : state.lengths) index.write_value(length);
  i64 place = 0;
  for (const i32 length : state.lengths) {
    index.write_value(place);
    place += length * size;
  }
  for (const i64 bound : state.bounds) index.write_value(bound);
  index.write(state.modes);
  index.sync();

  const u64 hash = hash64(DataFile(state.prefix + ".idx.partial", "token file").text());
  PartialFile report(state.prefix + ".report.json");
  about.add("tokenizer", tokenizer).add("index", token_index_name(hash));
  report.write(about.text() + "\n");
  report.sync();

  remove_old(state.prefix + ".idx");
  state.data.rename();
  report.rename();
  index.rename();
}

}  // namespace tessera
