#include "kernel/cli/show.hpp"

#include <unistd.h>

#include <cstdio>

#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr std::size_t kWholeLines = std::string_view::npos;

void write(std::FILE* to, std::string_view text) { fmt::print(to, "{}", text); }

}  // namespace

void show_text(std::string_view text) { write(stdout, readable(text, kWholeLines)); }

void show_error_text(std::string_view text) { write(stderr, readable(text, kWholeLines)); }

std::string path_error(const std::filesystem::filesystem_error& error) {
  return fmt::format("cannot use {}: {}", written_path(error.path1()), error.code().message());
}

void show_exact(std::string_view bytes) {
  static const bool terminal = isatty(STDOUT_FILENO) == 1;
  if (terminal) {
    show_text(bytes);
  } else {
    write(stdout, bytes);
  }
}

}  // namespace tessera
