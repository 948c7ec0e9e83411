#include "kernel/train/run/flight_records.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "tessera/io/output_file.hpp"
#include "tessera/observer.hpp"

namespace tessera {

std::string flight_records_file(const std::string& out) {
  return (std::filesystem::path(out) / "flight_records.txt").string();
}

void add_flight_records(const Rank& rank,
                        const std::string& out,
                        std::string_view why,
                        std::optional<i64> replaying) noexcept try {
  std::string text =
      fmt::format("{:%Y-%m-%d %H:%M:%S} rank {} fails{}: {}\n",
                  fmt::localtime(std::time(nullptr)),
                  rank.mesh->rank(),
                  replaying ? fmt::format(" in whole step {}, replayed", *replaying) : "",
                  why);
  for (const std::string& line : rank.progress->collectives()) text += "  " + line + "\n";
  const std::string file = flight_records_file(out);
  if (is_pipe(file)) return;
  OutputFile(file, OutputFile::Start::append).write(text);  // one call, so one piece of the file
} catch (...) {                                             // out of memory, a full disk
}

}  // namespace tessera
