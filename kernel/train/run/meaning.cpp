#include "kernel/train/run/meaning.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

void Meaning::allow(const std::vector<std::string>& allowed) {
  std::vector<bool> kept(keys.size(), true);
  bool other_tokenizer = !tokenizer.empty();
  for (const std::string& pattern : allowed) {
    const auto names = [&](std::string_view name) {
      return fnmatch(pattern.c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
    };
    bool any = !tokenizer.empty() && names(kTokenizerKey);
    if (any) other_tokenizer = false;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!names(keys[i].key)) continue;
      kept[i] = false;
      any = true;
    }
    if (any) continue;
    Error(fmt::format("{} names nothing that differs from the checkpoint{}",
                      quote(pattern),
                      same() ? "" : "; what differs:" + text()),
          ErrorKind::configuration)
        .add(ErrorFrame::Kind::key, "checkpoint.init_changes")
        .raise();
  }
  std::vector<StructureChange> rest;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (kept[i]) rest.push_back(std::move(keys[i]));
  }
  keys = std::move(rest);
  if (!other_tokenizer) tokenizer.clear();
}

std::string Meaning::text() const {
  std::string text;
  for (const StructureChange& change : keys) text += "\n  " + change.text();
  if (!tokenizer.empty()) {
    text +=
        fmt::format("\n  {}: {}, now {}", kTokenizerKey, quote(tokenizer), quote(tokenizer_now));
  }
  return text;
}

Meaning compare_meaning(const CheckpointInfo& info,
                        const ConfigTree& now,
                        const Tokenizer* tokenizer) {
  Meaning meaning;
  meaning.keys = structure_changes(info.structure, now);
  if (tokenizer == nullptr) return meaning;
  meaning.tokenizer_now = tokenizer->fingerprint();
  meaning.tokenizer_known = !info.tokenizer.empty();
  if (info.tokenizer != meaning.tokenizer_now) meaning.tokenizer = info.tokenizer;
  return meaning;
}

void require_same_keys(const std::filesystem::path& checkpoint,
                       const Meaning& meaning,
                       std::string_view way_out) {
  if (meaning.keys.empty()) return;
  Meaning keys = meaning;
  keys.tokenizer.clear();
  fail_config(
      "{}: its parameters would compute something else than what they were trained for:{}\n  {}",
      checkpoint.string(),
      keys.text(),
      way_out);
}

void warn_of_unknown(const std::filesystem::path& checkpoint, const Meaning& meaning) {
  if (meaning.tokenizer_known) return;
  log_warning("{} does not say which tokenizer it was trained with; this one is {}",
              checkpoint.string(),
              quote(meaning.tokenizer_now));
}

}  // namespace tessera
