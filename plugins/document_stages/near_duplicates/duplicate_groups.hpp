#pragma once
#include <vector>

#include "tessera/document_stage.hpp"

namespace tessera {

/// Groups documents whose Jaccard index is above `similarity`, directly or by others of the group,
/// and returns all but the first of each. Their sketches are band_hashes(). The twin of a document
/// is the one by which it belongs to the group, on the shortest way to the first.
///
/// Candidates are documents with an equal band; each pair is verified by its texts, unless the
/// group joins them already.
std::vector<DocumentRemoval> duplicates(const DocumentSet& documents, double similarity);

}  // namespace tessera
