#pragma once
#include <memory>
#include <string>

#include "cut.hpp"
#include "sentence_map.hpp"
#include "tessera/io/kept_bytes.hpp"

namespace tessera {

/// Sentences of a part as samples: each is a piece. Its map is built once on a host, where there is
/// a folder to keep it in.
class SentenceCut final : public Cut {
 public:
  SentenceCut(Part part, const SentenceRequest& request, const std::string& keep_in);
  i64 size() const override { return static_cast<i64>(map_->runs().size()); }
  void find(i64 number, Sample& sample) const override;

 private:
  Part part_;
  std::unique_ptr<KeptBytes> kept_;
  std::unique_ptr<SentenceMap> map_;
};

}  // namespace tessera
