#include "kernel/plugin/library_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

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

// The bytes of a file, mapped: reading all plugins into memory took a third of a program's start.
class MappedBytes {
 public:
  MappedBytes(const std::filesystem::path& path, const Descriptor& file, std::size_t size)
      : size_(size),
        address_(mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.get(), 0)) {
    if (address_ == MAP_FAILED) fail("{}: cannot be read ({})", path.string(), SystemError());
  }
  ~MappedBytes() { munmap(address_, size_); }
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;
  std::string_view view() const { return {static_cast<const char*>(address_), size_}; }

 private:
  std::size_t size_;
  void* address_;
};

// Whatever size a file claims, no more of it is mapped than a library may have.
MappedBytes map_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    fail("{}: {}",
         path.string(),
         std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))
             ? "is a link to a file that does not exist"
             : "there is no such file");
  }
  if (!std::filesystem::is_regular_file(status)) fail("{}: is not a regular file", path.string());
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail("{}: cannot be read ({})", path.string(), SystemError());
  char header[sizeof(Elf64_Ehdr)];
  const ssize_t there = pread(file.get(), header, sizeof header, 0);
  if (there < 0) fail("{}: cannot be read ({})", path.string(), SystemError());
  header_of({header, static_cast<std::size_t>(there)}, path);
  const std::uintmax_t size = std::filesystem::file_size(path);
  if (size > kLargest) {
    fail("{}: has {}, and a plugin has at most {}: link it without debug information (strip -g)",
         path.string(),
         size_text(static_cast<double>(size)),
         size_text(static_cast<double>(kLargest)));
  }
  return {path, file, size};
}

std::string_view part(std::string_view bytes, const Elf64_Shdr& section) {
  if (section.sh_offset > bytes.size()) return {};
  return bytes.substr(section.sh_offset, section.sh_size);
}

std::string_view text_at(std::string_view bytes, u64 offset) {
  if (offset >= bytes.size()) return {};
  const std::string_view rest = bytes.substr(offset, kLongestText);
  return rest.substr(0, rest.find('\0'));
}

// The system maps the file and trusts its headers: one that was cut off while being copied ends the
// process with SIGBUS instead of an error.
bool is_whole(std::string_view bytes, const Elf64_Ehdr& header) {
  const auto inside = [&](u64 offset, u64 size) {
    return offset <= bytes.size() && size <= bytes.size() - offset;
  };
  if (!inside(header.e_shoff, u64{header.e_shnum} * sizeof(Elf64_Shdr))) return false;
  for (u64 i = 0; i < header.e_phnum; ++i) {
    const auto segment = at<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || !inside(segment->p_offset, segment->p_filesz)) return false;
  }
  return header.e_phnum > 0;
}

// Reads the table of exported symbols, which a stripped library has too. (Boost.DLL's library_info
// reads the other one, and mixes up string tables.) There is one such table, whatever a damaged
// file says.
void find_symbols(std::string_view bytes, const Elf64_Ehdr& header, LibraryFile& file) {
  const auto section = [&](u64 index) {
    return at<Elf64_Shdr>(bytes, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  for (u64 i = 0; i < header.e_shnum; ++i) {
    const auto table = section(i);
    if (!table || table->sh_type != SHT_DYNSYM) continue;
    const auto strings = section(table->sh_link);
    if (!strings) continue;
    const std::string_view symbols = part(bytes, *table);
    const std::string_view text = part(bytes, *strings);
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
  const MappedBytes mapped = map_file(path);
  const std::string_view bytes = mapped.view();
  const Elf64_Ehdr header = header_of(bytes, path);
  if (!is_whole(bytes, header)) {
    fail(
        "{}: is cut off or damaged: its {} bytes are less than its headers say; build or copy it "
        "again",
        path.string(),
        bytes.size());
  }
  LibraryFile file;
  file.path = path;
  file.hash = hash64(bytes);
  find_symbols(bytes, header, file);
  // The descriptor's text of that name, wherever the linker put it.
  const auto fields = bytes.find("sdk headers=");
  if (fields != std::string::npos) file.abi_fields = text_at(bytes, fields);
  return file;
}

}  // namespace tessera
