#include "kernel/plugin/symbols.hpp"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tessera {
namespace {

// An open file, read by position: a mapped one that was cut off meanwhile would raise SIGBUS.
class File {
 public:
  explicit File(const char* path) noexcept : descriptor_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// How many bytes of `out` were read.
  std::size_t read(u64 at, void* out, std::size_t bytes) const noexcept {
    const ssize_t got = pread(descriptor_, out, bytes, static_cast<off_t>(at));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  template <class T>
  bool get(u64 at, T& out) const noexcept {
    return read(at, &out, sizeof out) == sizeof out;
  }

 private:
  int descriptor_;
};

// The symbol of a function that holds `address`, in one table. `left` bounds how many symbols of
// the file are looked at, so that a crash is told in seconds whatever its tables claim.
bool find(
    const File& file, const Elf64_Shdr& table, u64 address, u64& left, Elf64_Sym& found) noexcept {
  std::array<Elf64_Sym, 64> some;
  for (u64 at = 0; at < table.sh_size && left > 0; at += sizeof some) {
    const u64 bytes = std::min<u64>(sizeof some, table.sh_size - at);
    const std::size_t count = file.read(table.sh_offset + at, some.data(), bytes) / sizeof some[0];
    left -= std::min<u64>(left, count);
    for (std::size_t i = 0; i < count; ++i) {
      const Elf64_Sym& symbol = some[i];
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      if (address < symbol.st_value || address - symbol.st_value >= symbol.st_size) continue;
      found = symbol;
      return true;
    }
    if (count == 0) break;
  }
  return false;
}

}  // namespace

std::string_view function_at(const char* path, u64 address, std::span<char> name) noexcept {
  const File file(path);
  Elf64_Ehdr header;
  if (!file.get(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  u64 left = u64{1} << 24;
  for (const u32 type : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (u64 i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr table, strings;
      Elf64_Sym symbol;
      const auto section = [&](u64 index, Elf64_Shdr& out) {
        return file.get(header.e_shoff + index * sizeof out, out);
      };
      if (!section(i, table) || table.sh_type != type) continue;
      if (!section(table.sh_link, strings) || !find(file, table, address, left, symbol)) continue;
      const std::size_t got =
          file.read(strings.sh_offset + symbol.st_name, name.data(), name.size());
      return {name.data(), strnlen(name.data(), got)};
    }
  }
  return {};
}

}  // namespace tessera
