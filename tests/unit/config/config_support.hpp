#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernel/config/catalog.hpp"
#include "kernel/config/resolve.hpp"
#include "tests/common/error_of.hpp"

namespace tessera::testing {

/// A catalog of made-up components, in the shape of the real ones:
/// model/gpt with slots down to rules and dispatchers, two optimizers' rules, a data set that
/// requires a path, and one of everything else that the root sections need.
class SampleCatalog : public Catalog {
 public:
  SampleCatalog();
  const ComponentInfo* find(std::string_view kind, std::string_view type) const override;
  std::vector<const ComponentInfo*> of_kind(std::string_view kind) const override;
  std::vector<std::string> load_failures() const override { return failures; }
  std::string library_of(std::string_view kind, std::string_view type) const override;

  template <class C>
  void add(std::string kind, std::string type, DeviceUnits (*units)() = nullptr) {
    ComponentInfo info;
    info.units = units;
    info.kind = std::move(kind);
    info.type = std::move(type);
    info.fields = fields_of<C>();
    infos_.push_back(std::move(info));
  }
  std::vector<std::string> failures;

 private:
  std::vector<ComponentInfo> infos_;
};

/// The least that resolves.
inline constexpr std::string_view kLeast = R"(schema = 1
[run]
steps = 10
[batch]
global = 8
micro = 2
sequence_length = 16
[model]
hidden = 64
[data]
path = "corpus"
)";

/// Texts of all problems, joined; empty when there are none.
std::string problems_of(const std::string& text, const std::vector<std::string>& sets = {});
std::string problems_of(const Config& config);
Resolved resolved(const std::string& text, const std::vector<std::string>& sets = {});

}  // namespace tessera::testing
