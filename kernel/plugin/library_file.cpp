#include "kernel/plugin/library_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernel/system/read_at.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/device/descriptor.hpp"
#include "tessera/error.hpp"
#include "tessera/io/size_text.hpp"

namespace tessera {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
#error "name this machine's ELF number here"
#endif

constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 30;
constexpr std::size_t kLongestText = 4096;  // of a symbol, of the fields of a build
constexpr std::string_view kOurs = "tessera_";

// Reads by copying: nothing in the file is known to be aligned, or even there.
template <class T>
std::optional<T> at(std::string_view bytes, u64 offset) {
  T value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// Throws unless it is the header of a shared library of this kind of machine.
Elf64_Ehdr header_of(std::string_view bytes, const std::filesystem::path& path) {
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    fail("{}: is not a shared library (not an ELF file)", path.string());
  }
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kMachine) {
    fail("{}: is a library for another kind of machine (ELF machine {}, {} bit)",
         path.string(),
         header->e_machine,
         header->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32);
  }
  if (header->e_type != ET_DYN) {
    fail("{}: is an ELF file, but not a shared library", path.string());
  }
  return *header;
}

// A file, read piece by piece: memory for all of it, which the system clears first, took a third of
// a program's start. (A mapped one that is cut off meanwhile would raise SIGBUS.)
class PluginFile {
 public:
  explicit PluginFile(const std::filesystem::path& path)
      : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status {};
    if (!file_ || fstat(file_.get(), &status) != 0) fail_reading();
    if (!S_ISREG(status.st_mode)) fail("{}: is not a regular file", path.string());
    bytes_ = static_cast<u64>(status.st_size);
  }
  u64 bytes() const { return bytes_; }
  /// What the file has of these bytes.
  std::string read(u64 offset, u64 size) const {
    if (offset >= bytes_) return {};
    std::string bytes(std::min(size, bytes_ - offset), '\0');
    bytes.resize(read(offset, std::span(bytes)));
    return bytes;
  }
  std::size_t read(u64 offset, std::span<char> to) const {
    const ssize_t got = read_at(file_.get(), std::as_writable_bytes(to), offset);
    if (got < 0) fail_reading();
    return static_cast<std::size_t>(got);
  }

 private:
  [[noreturn]] void fail_reading() const {
    const int why = errno;
    if (why != ENOENT) fail("{}: cannot be read ({})", path_.string(), SystemError(why));
    std::error_code error;
    const bool link = std::filesystem::is_symlink(path_, error);
    fail("{}: {}",
         path_.string(),
         link ? "is a link to a file that does not exist" : "there is no such file");
  }
  std::filesystem::path path_;
  Descriptor file_;
  u64 bytes_ = 0;
};

// Goes through all bytes once: their hash, and the descriptor's text that begins so, wherever the
// linker put it.
void scan(const PluginFile& in, LibraryFile& file) {
  constexpr std::string_view kBegin = "sdk headers=";
  std::array<char, 65536> piece;
  std::size_t kept = 0;  // the end of the piece before, where the text may begin
  for (u64 at = 0; at < in.bytes();) {
    const std::size_t size = std::min<u64>(piece.size() - kept, in.bytes() - at);
    const std::span fresh = std::span(piece).subspan(kept, size);
    if (in.read(at, fresh) != size) fail("{}: cannot be read to its end", file.path.string());
    file.hash = hash64({fresh.data(), size}, file.hash);
    const std::string_view seen(piece.data(), kept + size);
    const std::size_t found = file.abi_fields.empty() ? seen.find(kBegin) : seen.npos;
    if (found != seen.npos) {
      const std::string fields = in.read(at - kept + found, kLongestText);
      file.abi_fields = fields.substr(0, fields.find('\0'));
    }
    at += size;
    kept = std::min(seen.size(), kBegin.size() - 1);
    std::memmove(piece.data(), seen.data() + seen.size() - kept, kept);
  }
}

std::string_view text_at(std::string_view bytes, u64 offset) {
  if (offset >= bytes.size()) return {};
  const std::string_view rest = bytes.substr(offset, kLongestText);
  return rest.substr(0, rest.find('\0'));
}

// The system maps the file and trusts its headers: one that was cut off while being copied ends the
// process with SIGBUS instead of an error.
bool is_whole(const PluginFile& in, const Elf64_Ehdr& header) {
  const auto inside = [&](u64 offset, u64 size) {
    return offset <= in.bytes() && size <= in.bytes() - offset;
  };
  if (!inside(header.e_shoff, u64{header.e_shnum} * sizeof(Elf64_Shdr))) return false;
  const std::string segments = in.read(header.e_phoff, u64{header.e_phnum} * sizeof(Elf64_Phdr));
  for (u64 i = 0; i < header.e_phnum; ++i) {
    const auto segment = at<Elf64_Phdr>(segments, i * sizeof(Elf64_Phdr));
    if (!segment || !inside(segment->p_offset, segment->p_filesz)) return false;
  }
  return header.e_phnum > 0;
}

// Reads the table of exported symbols, which a stripped library has too. (Boost.DLL's library_info
// reads the other one, and mixes up string tables.) There is one such table, whatever a damaged
// file says.
void find_symbols(const PluginFile& in, const Elf64_Ehdr& header, LibraryFile& file) {
  const std::string sections = in.read(header.e_shoff, u64{header.e_shnum} * sizeof(Elf64_Shdr));
  const auto section = [&](u64 index) {
    return at<Elf64_Shdr>(sections, index * sizeof(Elf64_Shdr));
  };
  for (u64 i = 0; i < header.e_shnum; ++i) {
    const auto table = section(i);
    if (!table || table->sh_type != SHT_DYNSYM) continue;
    const auto strings = section(table->sh_link);
    if (!strings) continue;
    const std::string symbols = in.read(table->sh_offset, table->sh_size);
    const std::string text = in.read(strings->sh_offset, strings->sh_size);
    for (u64 k = 0; k < symbols.size() / sizeof(Elf64_Sym); ++k) {
      const auto symbol = at<Elf64_Sym>(symbols, k * sizeof(Elf64_Sym));
      if (!symbol || symbol->st_shndx == SHN_UNDEF) continue;
      file.has_symbols = true;
      const std::string_view name = text_at(text, symbol->st_name);
      if (name.starts_with(kOurs)) file.symbols.emplace_back(name);
    }
    return;
  }
}

}  // namespace

LibraryFile read_library_file(const std::filesystem::path& path) {
  const PluginFile in(path);
  const Elf64_Ehdr header = header_of(in.read(0, sizeof(Elf64_Ehdr)), path);
  if (in.bytes() > kLargest) {
    fail("{}: has {}, and a plugin has at most {}: link it without debug information (strip -g)",
         path.string(),
         size_text(static_cast<double>(in.bytes())),
         size_text(static_cast<double>(kLargest)));
  }
  if (!is_whole(in, header)) {
    fail(
        "{}: is cut off or damaged: its {} bytes are less than its headers say; build or copy it "
        "again",
        path.string(),
        in.bytes());
  }
  LibraryFile file;
  file.path = path;
  scan(in, file);
  find_symbols(in, header, file);
  return file;
}

}  // namespace tessera
