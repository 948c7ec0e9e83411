#include "kernel/train/run/converters.hpp"

#include <cstring>
#include <memory>
#include <system_error>

#include "kernel/checkpoint/commit.hpp"
#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folder_place.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/config/tree.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

std::vector<NamedConverter> converters(const PluginHost& plugins, const std::string& name) {
  std::vector<NamedConverter> all;
  const auto empty = std::make_shared<ConfigTree>();
  ConverterArguments arguments;
  for (const ComponentInfo* info : plugins.of_kind(Converter::kKind)) {
    if (!name.empty() && info->type != name) continue;
    all.push_back(
        {info->type, plugins.make<Converter>(info->type, *make_node(empty, ""), {}, arguments)});
  }
  if (all.empty()) {
    fail_config("no plugin brings a converter{}{}",
                name.empty() ? "" : " " + quote(name),
                plugins.not_loaded());
  }
  return all;
}

std::string names_of(const std::vector<NamedConverter>& all) {
  std::vector<std::string> names;
  for (const NamedConverter& one : all) names.push_back(one.name);
  return name_list(names);
}

std::vector<std::byte> transposed(std::span<const std::byte> from, i64 rows, i64 columns) {
  const i64 size = rows * columns == 0 ? 0 : static_cast<i64>(from.size()) / (rows * columns);
  std::vector<std::byte> to(from.size());
  for (i64 r = 0; r < rows; ++r) {
    for (i64 c = 0; c < columns; ++c) {
      std::memcpy(to.data() + (c * rows + r) * size,
                  from.data() + (r * columns + c) * size,
                  static_cast<std::size_t>(size));
    }
  }
  return to;
}

NewFolder::NewFolder(const std::filesystem::path& folder)
    : folder_(folder.has_filename() ? folder : folder.parent_path()),  // without a last slash
      temporary_(folder_.string() + ".tessera.tmp") {
  namespace fs = std::filesystem;
  std::error_code unknown;
  if (fs::exists(folder_, unknown)) fail_config("{} is there already", folder_.string());
  if (const std::string why = why_no_folder(folder_); !why.empty()) fail_config("{}", why);
  fs::remove_all(temporary_, unknown);
  make_folder(temporary_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(temporary_, ignored);
}

void NewFolder::finish() {
  sync_folder(temporary_);
  if (!rename_new(temporary_, folder_)) fail_config("{} is there already", folder_.string());
  sync_folder(std::filesystem::absolute(folder_).parent_path());
}

}  // namespace tessera
