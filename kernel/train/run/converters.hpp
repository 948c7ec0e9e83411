#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/plugin/host.hpp"
#include "tessera/converter.hpp"

namespace tessera {

inline constexpr std::string_view kModelType = "model_type";  // of config.json

struct NamedConverter {
  std::string name;
  std::shared_ptr<Converter> converter;
};

/// All that plugins bring, or the one of this name. Throws ConfigError when there is none.
std::vector<NamedConverter> converters(const PluginHost& plugins, const std::string& name);
std::string names_of(const std::vector<NamedConverter>& all);

/// A matrix whose rows become columns.
std::vector<std::byte> transposed(std::span<const std::byte> from, i64 rows, i64 columns);

/// A folder that is complete or not there: what is written to path() is in `folder` after finish().
/// Throws ConfigError when `folder` exists.
class NewFolder {
 public:
  explicit NewFolder(const std::filesystem::path& folder);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  const std::filesystem::path& path() const { return temporary_; }
  void finish();

 private:
  std::filesystem::path folder_, temporary_;
};

}  // namespace tessera
