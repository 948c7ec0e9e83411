#include "tessera/document_stage.hpp"
#include "sdk/src/shared/component_call.hpp"
#include "tessera/error.hpp"

namespace tessera {

DocumentSet::~DocumentSet() = default;
DocumentComparison::~DocumentComparison() = default;
DocumentStage::~DocumentStage() = default;

StageResult DocumentStage::apply(const Document& document) const {
  return call_component(*this, "apply", [&] {
    StageResult result = do_apply(document);
    require(result.sequences.empty() || do_makes_sequences(),
            "it cut a document into sequences, and makes_sequences() is false");
    return result;
  });
}
std::unique_ptr<DocumentComparison> DocumentStage::comparison() const {
  return call_component(*this, "comparison", [&] {
    std::unique_ptr<DocumentComparison> made = do_comparison();
    if (made != nullptr) {
      const i64 bytes = made->sketch_bytes();
      require(bytes >= 8 && bytes <= 1024 && bytes % 8 == 0,
              "a sketch has {} bytes; it has to have 8 to 1,024, and a multiple of 8",
              bytes);
    }
    return made;
  });
}
bool DocumentStage::mends_text() const {
  return call_component(*this, "mends_text", [&] { return do_mends_text(); });
}
bool DocumentStage::makes_sequences() const {
  return call_component(*this, "makes_sequences", [&] { return do_makes_sequences(); });
}
std::string DocumentStage::fingerprint() const {
  return call_component(*this, "fingerprint", [&] { return do_fingerprint(); });
}

}  // namespace tessera
