#include "split.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/io/utf8.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace {

enum class Unit : u8 { file, paragraph, line, part };
constexpr const char* kNames[] = {"files", "paragraphs", "lines", "parts"};

struct Document {
  std::size_t file;
  std::string_view text;
  Unit unit;
};

/// Cuts texts into documents of at most `most` bytes.
class Cutter {
 public:
  explicit Cutter(i64 most) : most_(static_cast<std::size_t>(most)), least_(most_ / 1000) {}

  void add(std::size_t file, std::string_view text, Unit unit = Unit::file) {
    if (text.size() <= most_) {
      if (!text.empty()) documents.push_back({file, text, unit});
      return;
    }
    switch (unit) {
      case Unit::file:
        return cut(file, text, Unit::paragraph);
      case Unit::paragraph:
        return cut(file, text, Unit::line);
      case Unit::line:
      case Unit::part:
        return cut_evenly(file, text);
    }
  }

  std::vector<Document> documents;

 private:
  static bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
  }

  // A paragraph ends after its blank lines, a line after its end.
  void cut(std::size_t file, std::string_view text, Unit unit) {
    std::size_t begin = 0;  // where what is not added yet begins
    bool after_blank = false;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      const bool blank = is_blank(text.substr(at, end - at));
      const bool ends = unit == Unit::line || (after_blank && !blank);
      if (ends && at - begin > least_) add(file, text.substr(begin, at - begin), unit), begin = at;
      after_blank = blank;
      at = end;
    }
    add(file, text.substr(begin), unit);
  }

  void cut_evenly(std::size_t file, std::string_view text) {
    const std::size_t parts = (text.size() + most_ - 1) / most_;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t begin = edge(text, part, parts), end = edge(text, part + 1, parts);
      if (begin < end) documents.push_back({file, text.substr(begin, end - begin), Unit::part});
    }
  }

  // No part begins within a UTF-8 character.
  static std::size_t edge(std::string_view text, std::size_t part, std::size_t parts) {
    std::size_t at = text.size() / parts * part + text.size() % parts * part / parts;
    constexpr std::size_t kLongest = 3;  // bytes of a character after its first
    for (std::size_t back = 0; back < kLongest && at > 0 && at < text.size(); ++back, --at) {
      if (!inside_character(text[at])) break;
    }
    return at;
  }

  std::size_t most_, least_;
};

// Documents in an order of the key's, until they have `wanted` bytes or as near as the next gets.
std::vector<bool> choose(const std::vector<Document>& documents, i64 wanted, u64 key) {
  std::vector<std::pair<u64, std::size_t>> order;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const Philox::Words words = Philox::words(key, {static_cast<u32>(i), 0, 0, 0});
    order.emplace_back(u64{words[0]} << 32 | words[1], i);
  }
  std::ranges::sort(order);
  std::vector<bool> chosen(documents.size());
  i64 bytes = 0;
  for (const auto& [score, i] : order) {
    const auto size = static_cast<i64>(documents[i].text.size());
    if (bytes + size / 2 > wanted) continue;
    chosen[i] = true;
    bytes += size;
  }
  return chosen;
}

}  // namespace

Split split_documents(const std::vector<std::string_view>& texts, double share, u64 key) {
  const double all =
      std::accumulate(texts.begin(), texts.end(), 0.0, [](double sum, std::string_view text) {
        return sum + static_cast<double>(text.size());
      });
  // Without validation nothing is cut.
  const i64 wanted = share > 0 ? std::max(static_cast<i64>(share * all), i64{1}) : 0;
  Cutter cutter(share > 0 ? wanted : std::max(static_cast<i64>(all), i64{1}));
  for (std::size_t file = 0; file < texts.size(); ++file) cutter.add(file, texts[file]);
  const std::vector<Document>& documents = cutter.documents;
  std::vector<bool> validation(documents.size());
  if (share > 0) validation = choose(documents, wanted, key);
  Split split;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto& [file, text, unit] = documents[i];
    ++(validation[i] ? split.validation : split.training);
    const bool first = i == 0;
    split.unit = first || split.unit == kNames[static_cast<int>(unit)]
                     ? kNames[static_cast<int>(unit)]
                     : "documents";
    const bool goes_on = !first && split.pieces.back().file == file &&
                         split.pieces.back().validation == validation[i];
    if (goes_on) {
      std::string_view& before = split.pieces.back().text;
      before = {before.data(), before.size() + text.size()};
    } else {
      split.pieces.push_back({file, text, validation[i]});
    }
  }
  return split;
}

}  // namespace tessera
