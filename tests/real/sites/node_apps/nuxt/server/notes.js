export const notes = [];
