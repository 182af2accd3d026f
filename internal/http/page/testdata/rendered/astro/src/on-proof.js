export const onProof = async (proof) => { window.proof = proof; return window.accepts; };
