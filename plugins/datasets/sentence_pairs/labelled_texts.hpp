#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "pair_datasets.hpp"
#include "tessera/io/written.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// The keys of texts of a user's own classes: JSONL whose objects have a text, or two, and a class.
struct LabelledKeys {
  std::vector<std::string> classes;
  std::string text = "text", second, label = "label";

  /// Throws ConfigError for fewer than two classes, and one that is named twice.
  PairTask task() const;
};
template <class C>
void describe_labelled(Schema<C>& s, FromRun from = {}) {
  s.field("classes",
          &C::classes,
          "what the label may be, a text or true, false or a number as the file writes it; their "
          "order is that of the head's scores, and as many are model.head.classes")
      .from(from.path("data.classes"))
      .required();
  const auto field = [&](const char* name, std::string C::*member, const char* doc) {
    const std::string path = std::string("data.") + name;
    s.field(name, member, from.text(doc, quote(C().*member))).from(from.path(path.c_str()));
  };
  field("text", &C::text, "the field that has the text");
  field("second", &C::second, "the field that has a second text beside it; \"\": there is none");
  field("label", &C::label, "the field that has the class");
}

/// Dataset `classes`.
class ClassesDataset final : public TaskDataset {
 public:
  struct Config : TaskKeys, LabelledKeys {
    static void describe(Schema<Config>& s);
  };
  ClassesDataset(const Config& config, DatasetArguments& arguments);
};

}  // namespace tessera
