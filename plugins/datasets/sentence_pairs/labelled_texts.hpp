#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "pair_datasets.hpp"
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
void describe_labelled(Schema<C>& s) {
  s.field("classes",
          &C::classes,
          "what the label may be, a text or true, false or a number as the file writes it; their "
          "order is that of the head's scores, and as many are model.head.classes")
      .required();
  s.field("text", &C::text, "the field that has the text");
  s.field("second", &C::second, "the field that has a second text beside it; \"\": there is none");
  s.field("label", &C::label, "the field that has the class");
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
