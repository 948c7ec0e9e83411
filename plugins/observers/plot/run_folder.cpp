#include "run_folder.hpp"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/observer.hpp"

namespace tessera {
namespace {

void refuse_pipe(const std::string& path) {
  if (is_pipe(path)) fail("\"{}\" is a pipe and no file", path);
}

std::optional<double> leading_number(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> EarlierStep::number(std::string_view key) const {
  const std::string mark = "\"" + std::string(key) + "\":";
  const std::size_t at = line_.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return leading_number(line_.substr(at + mark.size()));
}

void EarlierStep::for_each_number(
    const std::function<void(std::string_view key, double value)>& take) const {
  constexpr std::string_view kBegin = "\"", kEnd = "\":";
  for (std::size_t end = line_.find(kEnd); end != std::string_view::npos;
       end = line_.find(kEnd, end + kEnd.size())) {
    const std::size_t begin = end == 0 ? std::string_view::npos : line_.rfind(kBegin, end - 1);
    const auto value = leading_number(line_.substr(end + kEnd.size()));
    if (begin == std::string_view::npos || !value) continue;
    take(line_.substr(begin + 1, end - begin - 1), *value);
  }
}

void for_each_earlier_step(const std::string& path,
                           i64 last,
                           const std::function<void(const EarlierStep&)>& take) {
  refuse_pipe(path);
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();  // an editor's
    const auto step = EarlierStep(0, line).number("step");
    if (!step || !line.ends_with('}')) continue;
    const auto at = static_cast<i64>(*step);
    // A damaged line may claim a later step than those behind it.
    if (at <= last) take(EarlierStep(at, line));
  }
}

void replace_file(const std::string& path, std::string_view text) {
  const std::string next = path + ".tmp";
  refuse_pipe(next);
  std::error_code error;
  OutputFile out(next);
  try {
    out.write(text);
  } catch (const Error&) {
    std::filesystem::remove(next, error);  // on a full disk others need the space
    throw;
  }
  std::filesystem::rename(next, path, error);
  if (error) fail("cannot put \"{}\" in place: {}", path, SystemError(error));
}

}  // namespace tessera
