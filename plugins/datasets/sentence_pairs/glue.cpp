#include "glue.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// Where a task's files have what is read.
struct Columns {
  std::size_t a, b;
  std::optional<std::size_t> label;  // none: the last
  std::size_t test;                  // so many columns: no labels
  std::span<const std::string_view> labels;
};

constexpr std::array<std::string_view, kMnliClasses> kMnliLabels = {
    "contradiction", "entailment", "neutral"};
constexpr std::array<std::string_view, kQqpClasses> kQqpLabels = {"0", "1"};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

i64 label_of(std::string_view word, std::span<const std::string_view> labels) {
  const auto found = std::ranges::find(labels, trimmed(word));
  return found == labels.end() ? -1 : found - labels.begin();
}

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

void for_each_pair(std::string_view text,
                   std::string_view file,
                   const Columns& of,
                   const std::function<bool(std::size_t)>& known,
                   std::string_view wanted,
                   BadRows& bad,
                   const TakePair& take) {
  std::vector<std::string> names;
  std::size_t label = 0;
  for_each_row(
      text,
      file,
      bad,
      [&](const TabRow& row) {
        const std::size_t count = row.columns.size();
        if (count == of.test) {
          fail_config(
              "{}: {} columns, as a test file has them: it has no labels", row.where, count);
        }
        if (!known(count))
          fail_config("{}: {} columns, and {} are wanted", row.where, count, wanted);
        label = of.label.value_or(count - 1);
        if (label_of(row.columns[label], of.labels) >= 0) {
          fail_config("{}: the first line names the columns, and this one is an example",
                      row.where);
        }
        for (const std::string_view name : row.columns) names.emplace_back(trimmed(name));
      },
      [&](const TabRow& row) {
        const SentencePair pair{.a = trimmed(row.columns[of.a]),
                                .b = trimmed(row.columns[of.b]),
                                .label = label_of(row.columns[label], of.labels),
                                .line = row.line};
        for (const std::size_t column : {of.a, of.b}) {
          if (!trimmed(row.columns[column]).empty()) continue;
          return bad.add(row, fmt::format("{} is empty", quote(names[column])));
        }
        if (pair.label < 0) {
          fail_config("{}: {} is {}, which is none of {}",
                      row.where,
                      quote(names[label]),
                      quote(trimmed(row.columns[label])),
                      joined(of.labels));
        }
        take(pair);
      });
}

}  // namespace

void for_each_mnli(std::string_view text,
                   std::string_view file,
                   BadRows& bad,
                   const TakePair& take) {
  constexpr Columns kColumns = {.a = 8, .b = 9, .label = {}, .test = 10, .labels = kMnliLabels};
  const auto known = [](std::size_t count) { return count > 10; };
  for_each_pair(text, file, kColumns, known, "11 or more", bad, take);
}

void for_each_qqp(std::string_view text,
                  std::string_view file,
                  BadRows& bad,
                  const TakePair& take) {
  constexpr Columns kColumns = {.a = 3, .b = 4, .label = 5, .test = 3, .labels = kQqpLabels};
  const auto known = [](std::size_t count) { return count == 6; };
  for_each_pair(text, file, kColumns, known, "6", bad, take);
}

}  // namespace tessera
