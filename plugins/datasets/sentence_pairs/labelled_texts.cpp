#include "labelled_texts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/error.hpp"
#include "tessera/io/json_lines.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

using Json = nlohmann::json;

bool has_word(std::string_view text) { return text.find_first_not_of(kBlanks) != text.npos; }

std::string text_of(const Json& object, const std::string& field, const std::string& where) {
  std::string text = text_in(object, field, where);
  if (!has_word(text)) fail_config("{}: {} is empty", where, quote(field));
  return text;
}

// Which class the label is.
i64 class_of(const Json& object, const LabelledKeys& keys, const std::string& where) {
  const auto found = object.find(keys.label);
  if (found == object.end()) fail_config("{}: no field {}", where, quote(keys.label));
  if (!found->is_string() && !found->is_boolean() && !found->is_number_integer()) {
    fail_config("{}: {} is {}, which is no class: a class is a text, true, false or a whole number",
                where,
                quote(keys.label),
                written_plain(found->dump()));
  }
  const std::string written = found->is_string() ? found->get<std::string>() : found->dump();
  const auto at = std::ranges::find(keys.classes, written);
  if (at == keys.classes.end()) {
    fail_config("{}: {} is {}, which is none of classes: {}",
                where,
                quote(keys.label),
                quote(written),
                fmt::join(keys.classes, ", "));
  }
  return at - keys.classes.begin();
}

void read_labelled(const DataFile& file, const LabelledKeys& keys, const TakePair& take) {
  for_each_json_line<Json>(file, [&](const Json& object, i64 line) {
    const std::string where = fmt::format("{}:{}", written_path(file.path()), line);
    const std::string a = text_of(object, keys.text, where);
    const std::string b = keys.second.empty() ? "" : text_of(object, keys.second, where);
    take({.a = a, .b = b, .label = class_of(object, keys, where), .line = line});
  });
}

}  // namespace

PairTask LabelledKeys::task(std::string_view key) const {
  const auto count = static_cast<i64>(classes.size());
  if (count < 2) fail_config("{}: give two or more", key);
  for (auto at = classes.begin(); at != classes.end(); ++at) {
    if (at->empty()) fail_config("{}: one has no name", key);
    if (std::find(classes.begin(), at, *at) != at) {
      fail_config("{}: {} is named twice", key, quote(*at));
    }
  }
  if (head_classes > 0 && head_classes != count) {
    fail_config("{}: there are {}, and model.head.classes = {}", key, count, head_classes);
  }
  std::string meaning;  // the same file has other samples with other keys
  for (const std::string& name : classes) meaning += fmt::format(" {} {}", name.size(), name);
  for (const std::string* field : {&text, &second, &label}) {
    meaning += fmt::format(" {} {}", field->size(), *field);
  }
  return {.name = "classes",
          .read = [keys = *this](const DataFile& file,
                                 BadRows&,
                                 const TakePair& take) { read_labelled(file, keys, take); },
          .pairs = !second.empty(),
          .keys = meaning};
}

void ClassesDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s, "JSONL files of texts with a class");
  describe_labelled(s);
}

ClassesDataset::ClassesDataset(const Config& config, DatasetArguments& arguments)
    : TaskDataset("classes",
                  config,
                  arguments.seed,
                  pair_reader(config.task("data.classes"), arguments, {})) {}

}  // namespace tessera
