"""ESPnet's hybrid CTC/attention recogniser with a Branchformer or an E-Branchformer encoder.

Sources: papers "Branchformer" (arXiv 2207.02971) and "E-Branchformer" (arXiv 2210.00077), "Hybrid
CTC/Attention Architecture for End-to-End Speech Recognition" (10.1109/JSTSP.2017.2763455); package
`espnet` 202310 (classes, defaults, entry names); specification sheet of the family, section 6.
"""
